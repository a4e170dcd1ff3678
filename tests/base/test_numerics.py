"""The types of a contraction."""

from __future__ import annotations

import numpy as np
import pytest

from tvm_sparse.base.numerics import FLOAT32, Numerics, bits_of, samples


@pytest.mark.parametrize(
    ("dtype", "sums"),
    [("float32", "float32"), ("bfloat16", "float32"), ("int8", "int32"), ("uint8", "int32")],
)
def test_sums_are_wide_enough(dtype, sums):
    assert Numerics.uniform(dtype).accumulate == sums
    assert Numerics.uniform(dtype).floating == (sums == "float32")


@pytest.mark.parametrize(
    ("dtype", "bits"), [("float32", 32), ("bfloat16", 16), ("uint8", 8), ("float64", 64)]
)
def test_bits(dtype, bits):
    assert bits_of(dtype) == Numerics.uniform(dtype).bits == bits


def test_phrases_name_what_differs():
    assert str(FLOAT32) == "float32"
    assert str(FLOAT32.with_weights("bfloat16")) == "float32, weights bfloat16"
    assert str(Numerics.uniform("float16", "float32")) == "float16, output float32"


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint8"])
def test_samples_fill_their_range(dtype):
    x = samples(np.random.default_rng(0), (64, 64), dtype)
    assert x.dtype == dtype
    assert x.shape == (64, 64)
    assert len(np.unique(x)) > 200
