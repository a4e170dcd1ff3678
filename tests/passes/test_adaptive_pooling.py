"""Adaptive pooling against PyTorch: windows that overlap, more than there are elements, NaN."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

import tvm_sparse as ts

AVERAGES = {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}
LARGEST = {1: F.adaptive_max_pool1d, 2: F.adaptive_max_pool2d, 3: F.adaptive_max_pool3d}
CASES = [
    ((1, 7, 1000), 5),
    ((2, 3, 257), 2),
    ((3, 2, 245), 5),
    ((1, 3, 57), 5),
    ((1, 2, 20), 20),
    ((2, 3, 14, 14), (5, 5)),
    ((1, 2, 7, 7), (14, 14)),
    ((1, 2, 3, 2), (5, 19)),
    ((2, 2, 9, 112), (4, 5)),
    ((1, 3, 30, 61), (11, 37)),
    ((1, 2, 6, 300), (3, 2)),
    ((1, 2, 5, 1), (3, 1)),
    ((1, 2, 4, 7, 33), (5, 3, 2)),
    ((2, 2, 6, 5, 18), (3, 2, 9)),
]


class Pooled(torch.nn.Module):
    """A pooling of one tensor."""

    def __init__(self, pool, *arguments):
        super().__init__()
        self.pool, self.arguments = pool, arguments

    def forward(self, x):
        """Return the result."""
        return self.pool(x, *self.arguments)


def library(model, x):
    return ts.compile(model.eval(), (x,), config=ts.Config(measure=False))


@pytest.mark.grid
@pytest.mark.parametrize(("shape", "counts"), CASES, ids=str)
@pytest.mark.parametrize("pools", [AVERAGES, LARGEST], ids=["average", "largest"])
def test_values_and_what_is_no_number(pools, shape, counts):
    model = Pooled(pools[len(shape) - 2], counts)
    x = torch.randn(shape)
    compiled = library(model, x)
    odd = torch.where(torch.rand(shape) < 0.03, torch.nan, x)
    endless = torch.where(torch.rand(shape) < 0.03, torch.inf, torch.full(shape, -torch.inf))
    for values in (x, odd, endless):
        torch.testing.assert_close(
            compiled(values), model(values), rtol=1e-5, atol=1e-6, equal_nan=True
        )


@pytest.mark.grid
@pytest.mark.parametrize(
    ("counts", "axes"),
    [
        ((None, 4), (2,)),
        ((None, 4), (2, 3)),
        ((1, None), (0, 3)),
        ((None, None), (2, 3)),
        ((3, None, 2), (3,)),
        ((None, 2, None), (2, 4)),
    ],
    ids=str,
)
def test_open_axes_that_stay(counts, axes):
    model, shape = Pooled(AVERAGES[len(counts)], counts), [2, 3, 9, 7, 6][: 2 + len(counts)]
    dims = {axis: torch.export.Dim(f"n{axis}", min=1, max=33) for axis in axes}
    x, config = torch.randn(shape), ts.Config(measure=False)
    compiled = ts.compile(model.eval(), (x,), dynamic_shapes=(dims,), config=config)
    for size in (1, 15, 17, 33):
        other = torch.randn([size if axis in axes else n for axis, n in enumerate(shape)])
        torch.testing.assert_close(compiled(other), model(other), rtol=1e-5, atol=1e-6)


@pytest.mark.grid
@pytest.mark.parametrize("pools", [AVERAGES, LARGEST], ids=["average", "largest"])
@pytest.mark.parametrize(("shape", "counts"), [CASES[0], CASES[6], CASES[8], CASES[12]], ids=str)
def test_windows_are_pooled_in_vectors(pools, shape, counts):
    compiled = library(Pooled(pools[len(shape) - 2], counts), torch.randn(shape))
    assert [kernel.rule for kernel in compiled.kernels] == ["Written"]


@pytest.mark.grid
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("pool", [F.adaptive_avg_pool2d, F.adaptive_max_pool2d])
def test_other_types(pool, dtype):
    x = torch.randint(-8, 9, (1, 2, 9, 20)).to(dtype)
    model = Pooled(pool, (3, 5))
    torch.testing.assert_close(library(model, x)(x), model(x))


@pytest.mark.parametrize("shape", [(2, 3, 200), (1, 3, 57)], ids=str)
def test_places_that_are_read(shape):
    x = torch.randn(shape)
    values, places = F.adaptive_max_pool1d(x, 3, return_indices=True)
    got = library(Pooled(F.adaptive_max_pool1d, 3, True), x)(x)
    assert torch.equal(got[0], values)
    assert torch.equal(got[1], places)


class Lines(torch.nn.Module):
    def __init__(self, pool):
        super().__init__()
        self.pool = pool

    def forward(self, x):
        return self.pool(x, 5)


@pytest.mark.grid
@pytest.mark.parametrize("pool", [AVERAGES[1], LARGEST[1]])
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_what_is_no_number_stays_in_its_windows(pool, value):
    x = torch.randn(1, 2, 301)
    x[0, 1, [0, 60, 120, 300]] = value
    compiled = ts.compile(Lines(pool), (x,), config=ts.Config(measure=False))
    torch.testing.assert_close(compiled(x), pool(x, 5), equal_nan=True)
