"""Mean and deviation of neighbours: exact on integers, rows of any width, far from zero."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import te

from tests.kernels import run
from tvm_sparse.ops.tensors.moments import Rows, moments


def found(x: np.ndarray, width: int) -> np.ndarray:
    tensor = te.placeholder(x.shape, "float32", "X")
    func = te.create_prim_func([tensor, moments(tensor, Rows(x.size // width, width), 1e-5)])
    return run(func, [x], (x.size // width, 3))


@pytest.mark.grid
@pytest.mark.parametrize("width", [5, 16, 17, 63, 64, 65, 127, 128, 784])
@pytest.mark.parametrize("offset", [0, 1e4])
def test_rows_of_any_width(width, offset):
    rng = np.random.default_rng(width)
    x = (rng.standard_normal((3, 2, width)) * 3 + offset).astype(np.float32)
    got = found(x, width).astype(np.float64)
    rows = x.reshape(6, width).astype(np.float64)
    deviation = np.sqrt(rows.var(1) + 1e-5)
    np.testing.assert_allclose(got[:, 0] + got[:, 1], rows.mean(1), atol=1e-6 * deviation.max())
    np.testing.assert_allclose(got[:, 2], 1 / deviation, rtol=2e-6)


def test_integers_are_exact():
    x = np.tile(np.array([-3, 5], np.float32), (4, 48))
    np.testing.assert_array_equal(found(x, 32)[:, :2], np.tile([1.0, 0.0], (12, 1)))
    np.testing.assert_allclose(found(x, 32)[:, 2], 0.25, rtol=1e-6)


def test_a_row_with_nan_or_infinity_is_not_a_number():
    x = np.ones((3, 40), np.float32)
    x[0, 39], x[2, 0] = np.nan, np.inf
    got = found(x, 40)
    assert np.isnan(got[0]).any() and np.isnan(got[2]).any()
    np.testing.assert_allclose(got[1], [1, 0, 1e5**0.5], rtol=1e-6)
