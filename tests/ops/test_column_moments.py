"""Mean and deviation of channels that lie last: any groups, exact on integers, far from zero."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import te

from tests.kernels import run
from tvm_sparse.ops.tensors.column_moments import Columns, column_moments


def found(x: np.ndarray, each: int) -> np.ndarray:
    """Return the numbers of ``x``, ``(3, images, channels)``."""
    images, positions, channels = x.shape
    tensor = te.placeholder(x.shape, "float32", "X")
    columns = Columns(images, positions, channels, each)
    func = te.create_prim_func([tensor, column_moments(tensor, columns, 1e-5)])
    return run(func, [x], (3, images * channels)).reshape(3, images, channels)


def grouped(x: np.ndarray, each: int) -> np.ndarray:
    """Return the elements of each channel's group, ``(images, channels, elements)``."""
    images, positions, channels = x.shape
    groups = x.reshape(images, positions, channels // each, each).swapaxes(1, 2)
    return groups.reshape(images, channels // each, -1).repeat(each, axis=1)


@pytest.mark.parametrize(("channels", "each"), [(16, 1), (48, 3), (48, 24), (64, 64), (80, 10)])
@pytest.mark.parametrize("offset", [0, 1e4])
def test_groups_of_any_size(channels, each, offset):
    rng = np.random.default_rng(each)
    x = (rng.standard_normal((2, 57, channels)) * 3 + offset).astype(np.float32)
    mean, shift, inverse = found(x, each).astype(np.float64)
    groups = grouped(x.astype(np.float64), each)
    deviation = np.sqrt(groups.var(-1) + 1e-5)
    np.testing.assert_allclose(mean + shift, groups.mean(-1), atol=1e-6 * deviation.max())
    np.testing.assert_allclose(inverse, 1 / deviation, rtol=2e-6)


def test_integers_are_exact():
    x = np.tile(np.array([-3, 5], np.float32), (1, 8, 16))
    mean, shift, inverse = found(x, 4)
    np.testing.assert_array_equal(mean, np.full((1, 32), 1.0))
    np.testing.assert_array_equal(shift, np.zeros((1, 32)))
    np.testing.assert_allclose(inverse, 0.25, rtol=1e-6)


def test_a_group_with_nan_or_infinity_is_not_a_number():
    x = np.ones((1, 5, 16), np.float32)
    x[0, 4, 3], x[0, 0, 9] = np.nan, np.inf
    got = np.isnan(found(x, 4)).any(0)[0]
    np.testing.assert_array_equal(got, np.repeat([True, False, True, False], 4))
