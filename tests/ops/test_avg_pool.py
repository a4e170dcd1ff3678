"""Means of windows: every border and stride, planes and volumes, infinities, PyTorch's values."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from tvm import te

import tvm_sparse as ts
from tests.kernels import run
from tvm_sparse.ops.tensors.avg_pool import avg_pool
from tvm_sparse.ops.tensors.windows import Axis

POOLS = {2: functional.avg_pool2d, 3: functional.avg_pool3d}


@pytest.mark.grid
@pytest.mark.parametrize(
    ("extents", "numbers"),
    [
        ((9, 18), [(3, 2, 1), (3, 2, 1)]),
        ((9, 18), [(3, 1, 1), (3, 1, 1)]),
        ((8, 33), [(2, 2, 0), (4, 3, 2)]),
        ((7, 16), [(1, 1, 0), (3, 1, 1)]),
        ((9, 16), [(4, 1, 2), (2, 2, 0)]),
        ((4, 7, 17), [(3, 2, 1), (3, 2, 1), (3, 2, 1)]),
        ((5, 6, 16), [(1, 2, 0), (3, 1, 1), (2, 1, 0)]),
    ],
    ids=str,
)
@pytest.mark.parametrize("counts_borders", [True, False])
def test_means_of_windows(extents, numbers, counts_borders):
    rng = np.random.default_rng(0)
    x = rng.integers(-100, 100, (2, *extents)).astype(np.float32)
    x[rng.random(x.shape) < 0.02] = np.inf
    size, stride, border = zip(*numbers, strict=True)
    expected = POOLS[len(extents)](
        torch.from_numpy(x), size, stride, border, count_include_pad=counts_borders
    ).numpy()
    counts = zip(extents, expected.shape[1:], numbers, strict=True)
    axes = [Axis(1 + i, n, m, s, t, 1, b) for i, (n, m, (s, t, b)) in enumerate(counts)]
    tensor = te.placeholder(x.shape, "float32", "X")
    func = te.create_prim_func([tensor, avg_pool(tensor, axes, counts_borders=counts_borders)])
    np.testing.assert_allclose(run(func, [x], expected.shape), expected, rtol=1e-6, atol=1e-5)


def test_nothing_is_read_beyond_the_borders():
    """Both sides of a Select are computed, and TVM simplifies each as if its condition held."""
    axes = [Axis(1 + i, 8, 4, 3, 2, 1, 1) for i in range(2)]
    tensor = te.placeholder((2, 8, 8), "float32", "X")
    func = te.create_prim_func([tensor, avg_pool(tensor, axes, counts_borders=True)])
    script = func.script()
    assert script.count("T.if_then_else(") == 2
    assert "T.Select(" not in script


@pytest.mark.grid
@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.AvgPool2d(3, 2, 1), (1, 3, 9, 20)),
        (nn.AvgPool2d(3, 2, 1, count_include_pad=False), (2, 3, 9, 20)),
        (nn.AvgPool2d(3, 2, ceil_mode=True), (1, 3, 8, 20)),
        (nn.AvgPool2d((3, 5), (1, 2), (1, 2), divisor_override=7), (1, 3, 8, 20)),
        (nn.AvgPool2d(2, 2), (1, 3, 8, 20)),
        (nn.AvgPool3d(3, 2, 1), (1, 3, 4, 9, 20)),
        (nn.AvgPool1d(5, 2, 2), (2, 3, 50)),
    ],
    ids=str,
)
def test_layers(layer, shape):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    library = ts.compile(layer, (x,), config=ts.Config(measure=False, tuned=False))
    torch.testing.assert_close(library(x), layer(x), rtol=1e-6, atol=1e-6)
