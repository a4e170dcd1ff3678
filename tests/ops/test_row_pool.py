"""Pooling by rows and shuffles: every border and stride, planes and volumes, PyTorch's values."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from tvm import te

from tests.kernels import run
from tvm_sparse.ops.tensors.row_pool import MAXIMUM, mean, row_pool
from tvm_sparse.ops.tensors.windows import Axis, chunks_of

SUMS = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
LARGEST = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
SHAPES = [
    ((50,), [(3, 2, 1)]),
    ((9, 18), [(3, 2, 1), (3, 2, 1)]),
    ((14, 14), [(3, 2, 1), (3, 2, 1)]),
    ((7, 7), [(3, 2, 1), (3, 2, 1)]),
    ((5, 3), [(3, 1, 1), (3, 1, 1)]),
    ((8, 33), [(2, 2, 0), (4, 3, 2)]),
    ((7, 100), [(1, 1, 0), (3, 1, 1)]),
    ((9, 16), [(4, 1, 2), (2, 2, 0)]),
    ((4, 7, 17), [(3, 2, 1), (3, 2, 1), (3, 2, 1)]),
    ((5, 6, 75), [(1, 2, 0), (3, 1, 1), (5, 3, 2)]),
]


def axes_of(extents, counts, numbers):
    sizes = zip(extents, counts, numbers, strict=True)
    return [Axis(1 + i, n, m, s, t, 1, b) for i, (n, m, (s, t, b)) in enumerate(sizes)]


def pooled(x, axes, pooling, shape):
    chunks = chunks_of(axes[-1])
    assert chunks is not None
    tensor = te.placeholder(x.shape, "float32", "X")
    return run(te.create_prim_func([tensor, row_pool(tensor, axes, chunks, pooling)]), [x], shape)


@pytest.mark.grid
@pytest.mark.parametrize(("extents", "numbers"), SHAPES, ids=str)
@pytest.mark.parametrize("counts_borders", [True, False])
def test_means_of_windows(extents, numbers, counts_borders):
    rng = np.random.default_rng(0)
    x = rng.integers(-100, 100, (2, *extents)).astype(np.float32)
    x[rng.random(x.shape) < 0.02] = np.inf
    function = SUMS[len(extents)]
    expected = function(
        torch.from_numpy(x), *zip(*numbers, strict=True), count_include_pad=counts_borders
    ).numpy()
    axes = axes_of(extents, expected.shape[1:], numbers)
    got = pooled(x, axes, mean(axes, counts_borders=counts_borders), expected.shape)
    np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize(("extents", "numbers"), SHAPES, ids=str)
def test_maxima_of_windows(extents, numbers):
    rng = np.random.default_rng(0)
    x = -np.abs(rng.standard_normal((2, *extents))).astype(np.float32)
    x[rng.random(x.shape) < 0.02] = np.nan
    x[rng.random(x.shape) < 0.02] = -np.inf
    expected = LARGEST[len(extents)](torch.from_numpy(x), *zip(*numbers, strict=True)).numpy()
    axes = axes_of(extents, expected.shape[1:], numbers)
    np.testing.assert_array_equal(pooled(x, axes, MAXIMUM, expected.shape), expected)


@pytest.mark.parametrize(
    "axis",
    [
        Axis(1, 1, 1, 1, 1, 1, 0),
        Axis(1, 40, 1, 3, 2, 1, 1),
        Axis(1, 400, 40, 9, 10, 1, 0),
        Axis(1, 40, 18, 3, 2, 2, 0),
        Axis(1, 5000, 4998, 3, 1, 1, 0),
    ],
    ids=str,
)
def test_other_rows_are_left(axis):
    """Single columns, single results, windows far apart, dilated ones, and very long rows."""
    assert chunks_of(axis) is None
