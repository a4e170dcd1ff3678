"""Denormal numbers become zeros where rounding hides them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tvm_sparse.base.denormals import flushed

TINY = 1e-40


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_only_what_rounding_hides(dtype):
    weight = np.array([[0.5, TINY, -TINY, 0, 2e-38]], dtype)
    assert weight[0, 1] != 0
    kept = flushed(weight)
    assert kept.dtype == weight.dtype
    assert (kept == np.array([[0.5, 0, 0, 0, 2e-38]], dtype)).all()
    assert weight[0, 1] != 0, "the model's own weights are not touched"


@pytest.mark.parametrize(
    "weight",
    [
        np.array([TINY, 1e-20], np.float32),
        np.array([TINY, 0], np.float32),
        np.array([1e-6, 60000], np.float16),
        np.array([0.5, 1e-30, 0], np.float32),
        np.array([0.5, 1e-40], np.float64),
        np.zeros(3, np.float32),
        np.ones((0, 3), np.float32)[:, :0],
    ],
)
def test_others_stay_as_they_are(weight):
    assert flushed(weight) is weight
