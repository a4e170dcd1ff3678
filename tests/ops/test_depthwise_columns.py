"""Depthwise convolutions of bytes, several taps at a time: exact wherever the operator fits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.integers import TARGETS, as_integers, assert_integers, sparse_bytes
from tests.ops.shapes import WINDOWS, window
from tvm_sparse.machine.registry import machine_of
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.depthwise_columns import depthwise_columns, tap_columns_format

FUSED = {name: target for name, target in TARGETS.items() if machine_of(target).fused}
FIRST = next(iter(FUSED.values()), None)

pytestmark = [
    pytest.mark.isa,
    pytest.mark.skipif(not FUSED, reason="no instruction multiplies and adds bytes here"),
]


def plane(rows, pixels, taps, strides=(1, 1), dilation=(1, 1), channels=16):
    """Return a depthwise convolution whose windows end with the input."""
    extents = zip((rows, pixels), taps, strides, dilation, strict=True)
    padded = tuple((n - 1) * s + (k - 1) * d + 1 for n, k, s, d in extents)
    lead = (1, rows, pixels)
    return Contraction(lead, channels, channels, taps, strides, dilation, padded, depthwise=True)


def check(c, target):
    format = tap_columns_format(c, target)
    assert format is not None
    matrix = sparse_bytes(np.random.default_rng(0), c.matrix_shape, 0.2)
    assert_integers(c, matrix, format, depthwise_columns, target)


@pytest.mark.grid
@pytest.mark.parametrize("activation", ["uint8", "int8"])
@pytest.mark.parametrize("machine", FUSED)
def test_windows_of_any_kind(machine, activation):
    for extents in WINDOWS:
        c = replace(window(extents, 48, 48), depthwise=True)
        check(as_integers(c, activation, zero_point=77), FUSED[machine])


@pytest.mark.parametrize("high", [1, 2, 3, 4, 5, 7])
def test_windows_of_any_height(high):
    for rows, activation, zero_point in ((4, "uint8", 255), (5, "int8", -128)):
        c = plane(rows, 9, (high, 3), channels=32)
        check(as_integers(c, activation, zero_point), FIRST)


@settings(max_examples=6)
@given(
    rows=st.integers(1, 6),
    pixels=st.integers(1, 20),
    taps=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    strides=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    dilation=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    channels=st.sampled_from([16, 80]),
)
def test_any_plane(rows, pixels, taps, strides, dilation, channels):
    c = plane(rows, pixels, taps, strides, dilation, channels)
    check(as_integers(c, "uint8", 3), FIRST)


def test_rows_share_words_where_they_are_neighbours():
    def shared(*extents, **others):
        return tap_columns_format(as_integers(plane(*extents, **others)), FIRST).shared

    assert shared(4, 4, (3, 3)) == 2
    assert shared(5, 4, (3, 3)) == 1
    assert shared(4, 4, (3, 3), strides=(2, 2)) == 1
    assert shared(4, 4, (3, 3), dilation=(2, 2)) == 1


def test_what_does_not_fit_is_left_to_the_plain_operator():
    fused, plain = FIRST, TARGETS["plain CPU"]
    c = as_integers(plane(4, 4, (3, 3)))
    line = Contraction((1, 8), 16, 16, (3,), (1,), (1,), (10,), depthwise=True)
    assert tap_columns_format(c, fused) is not None
    assert tap_columns_format(c, plain) is None
    assert tap_columns_format(plane(4, 4, (3, 3)), fused) is None
    assert tap_columns_format(as_integers(line), fused) is None
    assert tap_columns_format(as_integers(plane(4, 4, (3, 3), channels=20)), fused) is None
