"""Attention as one operator, against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

import tvm_sparse as ts
from tests.frontends.onnx.graphs import eager
from tests.frontends.onnx.microsoft.running import RNG, assert_same, normal, one_node

BATCH, LENGTH, HEADS, SIZE = 2, 4, 2, 8
HIDDEN = HEADS * SIZE
MASKS = {
    "none": None,
    "tokens": np.array([[1, 1, 0, 1], [0, 1, 1, 0]], np.int32),
    "pairs": RNG.integers(0, 2, (BATCH, LENGTH, LENGTH), np.int32),
    "ends": np.array([3, 2], np.int32),
    "ends and beginnings": np.array([4, 3, 1, 0], np.int32),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("options", [{}, {"unidirectional": 1}, {"mask_filter_value": -1.5}])
def test_projections_and_masks(mask, options):
    inputs = [normal(BATCH, LENGTH, 5), normal(5, 3 * HIDDEN), normal(3 * HIDDEN), MASKS[mask]]
    assert_same("Attention", inputs, num_heads=HEADS, **options)


def test_all_at_once_after_a_cache():
    past = normal(2, BATCH, HEADS, 3, SIZE)
    mask = RNG.integers(0, 2, (BATCH, LENGTH + 3), np.int32)
    inputs = [normal(BATCH, LENGTH, 5), normal(5, 3 * HIDDEN), normal(3 * HIDDEN), mask, past]
    options = {"num_heads": HEADS, "unidirectional": 1, "mask_filter_value": -2.0, "scale": 0.7}
    assert_same("Attention", inputs, "y present", **options)


def test_an_addend():
    added = normal(1, HEADS, LENGTH, LENGTH)
    parts = [normal(BATCH, LENGTH, 5), normal(5, 3 * HIDDEN), normal(3 * HIDDEN)]
    inputs = [*parts, MASKS["tokens"], None, added]
    assert_same("Attention", inputs, num_heads=HEADS, mask_filter_value=-2.0)


def test_values_of_another_size():
    inputs = [normal(BATCH, LENGTH, 5), normal(5, 2 * HIDDEN + 6), normal(2 * HIDDEN + 6)]
    assert_same("Attention", inputs, num_heads=HEADS, qkv_hidden_sizes=[HIDDEN, HIDDEN, 6])


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("past", [False, True])
def test_bytes_are_projected(mask, past):
    weight = RNG.integers(-100, 100, (5, 3 * HIDDEN), np.int8)
    scales = [np.array(0.02, np.float32), np.array(0.01, np.float32)]
    inputs = [
        RNG.integers(0, 256, (BATCH, LENGTH, 5), np.uint8),
        weight,
        normal(3 * HIDDEN),
        *scales,
        None if past else MASKS[mask],
        np.array(128, np.uint8),
        np.array(0, np.int8),
        normal(2, BATCH, HEADS, 3, SIZE) if past else None,
    ]
    outputs = "y present" if past else "y"
    assert_same("QAttention", inputs, outputs, num_heads=HEADS, constant=[1, 3, 4])


@pytest.mark.parametrize("columns", [False, True])
def test_bytes_with_a_scale_for_each_column(columns):
    count = 3 * HIDDEN if columns else 1
    weight = RNG.integers(0, 255, (5, 3 * HIDDEN), np.uint8)
    scale = RNG.uniform(0.01, 0.02, count).astype(np.float32)
    inputs = [RNG.integers(0, 255, (BATCH, LENGTH, 5), np.uint8), weight, normal(3 * HIDDEN)]
    inputs += [np.array([0.02], np.float32), scale, None, np.array([120], np.uint8)]
    inputs += [RNG.integers(100, 130, count).astype(np.uint8)]
    assert_same("QAttention", inputs, num_heads=HEADS, unidirectional=1, constant=[1, 4, 7])


def test_signed_bytes_are_projected_like_unsigned_ones():
    weight, bias = RNG.integers(-100, 100, (5, 3 * HIDDEN), np.int8), normal(3 * HIDDEN)
    x = RNG.integers(0, 256, (BATCH, LENGTH, 5), np.uint8)
    scales = [np.array(0.02, np.float32), np.array(0.01, np.float32)]

    def run(x, zero):
        inputs = [x, weight, bias, *scales, None, zero]
        given = [part for part in inputs if part is not None]
        return eager(one_node("QAttention", inputs, num_heads=HEADS), *given)[0]

    signed = run((x.astype(int) - 128).astype(np.int8), np.array(-8, np.int8))
    np.testing.assert_array_equal(signed, run(x, np.array(120, np.uint8)))


@pytest.mark.parametrize(("length", "causal"), [(LENGTH, 0), (LENGTH, 1), (6, 0)])
@pytest.mark.parametrize("extras", ["none", "bias", "mask", "added", "all"])
def test_queries_keys_and_values(length, causal, extras):
    every = extras == "all"
    values = HIDDEN if every else 6
    inputs = [
        normal(BATCH, LENGTH, HIDDEN),
        normal(BATCH, length, HIDDEN),
        normal(BATCH, length, values),
        normal(2 * HIDDEN + values) if extras in ("bias", "all") else None,
        RNG.integers(0, 2, (BATCH, length), np.int32) if extras in ("mask", "all") else None,
        normal(1, HEADS, LENGTH, length) if extras in ("added", "all") else None,
    ]
    options = {"unidirectional": causal, "mask_filter_value": -2.0, "scale": 0.5}
    assert_same("MultiHeadAttention", inputs, num_heads=HEADS, **options)


@pytest.mark.parametrize("causal", [0, 1])
def test_a_cache_is_returned_longer(causal):
    past = [normal(BATCH, HEADS, 3, SIZE) for _ in range(2)]
    inputs = [*(normal(BATCH, LENGTH, HIDDEN) for _ in range(3)), None, None, None, *past]
    assert_same("MultiHeadAttention", inputs, "y k v", num_heads=HEADS, unidirectional=causal)


def test_keys_that_have_heads_already():
    inputs = [normal(BATCH, LENGTH, HIDDEN), *(normal(BATCH, HEADS, 5, SIZE) for _ in range(2))]
    assert_same("MultiHeadAttention", inputs, num_heads=HEADS)


def test_packed_parts_are_those_apart():
    parts = [normal(BATCH, LENGTH, HEADS, SIZE) for _ in range(3)]
    apart = [part.reshape(BATCH, LENGTH, HIDDEN) for part in parts]

    def run(*inputs):
        return eager(one_node("MultiHeadAttention", inputs, num_heads=HEADS), *inputs)[0]

    expected = run(*apart)
    np.testing.assert_array_equal(run(np.stack(parts, 3)), expected)
    np.testing.assert_array_equal(run(apart[0], np.stack(parts[1:], 3)), expected)


REFUSED = {
    "attribute 'do_rotary'": ("Attention", {"do_rotary": 1}),
    "attribute 'past_present_share_buffer'": ("Attention", {"past_present_share_buffer": 1}),
    "its mask has the shape": ("Attention", {}),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_is_refused(reason):
    operator, options = REFUSED[reason]
    mask = np.ones((BATCH, 1, LENGTH, LENGTH), np.int32)
    inputs = [normal(BATCH, LENGTH, 5), normal(5, 3 * HIDDEN), normal(3 * HIDDEN), mask]
    with pytest.raises(ts.UnsupportedError, match=reason):
        eager(one_node(operator, inputs, num_heads=HEADS, **options), *inputs)


def test_a_direction_is_one_or_none():
    inputs = [normal(BATCH, LENGTH, 5), normal(5, 3 * HIDDEN), normal(3 * HIDDEN)]
    with pytest.raises(ts.InputError, match="unidirectional 2; expected 0 or 1"):
        eager(one_node("Attention", inputs, num_heads=HEADS, unidirectional=2), *inputs)


def test_keys_of_another_length_have_no_order():
    inputs = [normal(BATCH, LENGTH, HIDDEN), *(normal(BATCH, 6, HIDDEN) for _ in range(2))]
    with pytest.raises(ts.UnsupportedError, match="keys of another length than queries"):
        eager(one_node("MultiHeadAttention", inputs, num_heads=HEADS, unidirectional=1), *inputs)


def test_scores_and_shared_buffers_are_refused():
    parts = [normal(BATCH, LENGTH, HIDDEN) for _ in range(3)]
    made = one_node("MultiHeadAttention", parts, "y k v scores", num_heads=HEADS)
    with pytest.raises(ts.UnsupportedError, match="gives its scores"):
        eager(made, *parts)
    inputs = [*parts, *[None] * 5, np.array([3], np.int32)]
    with pytest.raises(ts.UnsupportedError, match="shares the buffer"):
        made = one_node("MultiHeadAttention", inputs, num_heads=HEADS)
        eager(made, *parts, inputs[-1])
