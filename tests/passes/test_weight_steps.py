"""Steps of weights: found exactly, whatever happened to the weights since they were quantized."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_sparse.passes.bytes.weight_steps import find_steps

RNG = np.random.default_rng(0)


@given(st.integers(0, 10_000), st.integers(1, 128), st.floats(0, 0.99), st.booleans())
def test_multiples_are_found(seed, largest, sparsity, by_feature):
    rng = np.random.default_rng(seed)
    whole = rng.integers(-largest, largest, (9, 40)) * (rng.random((9, 40)) >= sparsity)
    sizes = rng.uniform(1e-4, 3, (9, 1) if by_feature else (1, 1)).astype(np.float32)
    weight = (whole * sizes).astype(np.float32)
    found = find_steps(weight)
    assert found is not None
    assert -128 <= found.integers.min() and found.integers.max() <= 127
    np.testing.assert_allclose(found.integers * found.sizes[:, None], weight, rtol=2e-6)


def test_steps_survive_the_scaling_of_batch_norm():
    whole = RNG.integers(-127, 128, (32, 16, 3, 3)).astype(np.int8)
    sizes = RNG.uniform(0.01, 0.02, (32, 1, 1, 1)).astype(np.float32)
    scales = RNG.uniform(-2, 2, (32, 1, 1, 1)).astype(np.float32)
    found = find_steps((whole * sizes).astype(np.float32) * scales)
    sign = np.sign(scales)
    np.testing.assert_array_equal(found.integers, whole * sign)


@pytest.mark.parametrize(
    "weight",
    [
        RNG.standard_normal((4, 50)).astype(np.float32),
        np.array([[1, 127, 300]], np.float32) * 0.1,  # no byte less another is 300
        np.array([[1.0, 1.0001, 127]], np.float32),
        np.array([[1.0, np.inf]], np.float32),
        np.array([[1.0, np.nan]], np.float32),
    ],
)
def test_others_have_none(weight):
    assert find_steps(weight) is None


def test_features_of_zeros_have_steps():
    found = find_steps(np.zeros((3, 5), np.float32))
    assert not found.integers.any()
    assert (found.sizes == 1).all()
    assert find_steps(np.zeros((3, 0), np.float32)).integers.shape == (3, 0)


@pytest.mark.parametrize("zero", [128, 100, 0])
def test_bytes_above_a_zero_point_are_steps(zero):
    unsigned = RNG.integers(0, 256, (6, 30))
    found = find_steps(((unsigned - zero) * np.float32(0.03)).astype(np.float32))
    np.testing.assert_array_equal(found.integers, unsigned - zero)


@given(
    st.integers(0, 10_000),
    st.sampled_from([("float16", 128), ("bfloat16", 48)]),  # bfloat16 has eight bits itself
    st.floats(0, 1),
    st.floats(-17, 1),
)
def test_multiples_that_were_rounded_are_found(seed, kind, part, exponent):
    """Their roundings are the weights again; halves so small that they lose bits are among them."""
    rng = np.random.default_rng(seed)
    dtype, most = kind
    largest = max(2, round(part * most))
    whole = rng.integers(1 - largest, largest, (9, 40))
    weight = (whole * rng.uniform(1, 2, (9, 1)) * 2.0**exponent).astype(dtype)
    found = find_steps(weight, dtype)
    assert found is not None
    meant = found.integers * found.sizes[:, None]
    np.testing.assert_array_equal(meant.astype(dtype), weight)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_other_halves_have_none(dtype):
    weight = RNG.standard_normal((4, 50)).astype(dtype)
    assert find_steps(weight, dtype) is None
    weight[1, 7] = np.inf
    assert find_steps(weight, dtype) is None
