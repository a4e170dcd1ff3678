"""Adaptive pooling of lines against PyTorch: windows that overlap, NaN, places that are read."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

import tvm_sparse as ts

SHAPES = [(1, 7, 1000), (2, 3, 257), (5, 48), (3, 2, 245)]


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


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("count", [2, 5])
@pytest.mark.parametrize("pool", [F.adaptive_avg_pool1d, F.adaptive_max_pool1d])
def test_lines(pool, shape, count):
    x = torch.randn(shape)
    compiled = library(Pooled(pool, count), x)
    torch.testing.assert_close(compiled(x), pool(x, count), rtol=1e-5, atol=1e-6)
    vectors = any("line" in kernel.function for kernel in compiled.kernels)
    assert vectors == (shape[-1] // count >= 48)


@pytest.mark.parametrize("pool", [F.adaptive_avg_pool1d, F.adaptive_max_pool1d])
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_what_is_no_number_stays_in_its_windows(pool, value):
    x = torch.randn(1, 2, 301)
    x[0, 1, [0, 60, 120, 300]] = value
    compiled = library(Pooled(pool, 5), x)
    torch.testing.assert_close(compiled(x), pool(x, 5), equal_nan=True)


def test_places_that_are_read():
    x = torch.randn(2, 3, 200)
    values, places = F.adaptive_max_pool1d(x, 3, return_indices=True)
    got = library(Pooled(F.adaptive_max_pool1d, 3, True), x)(x)
    assert torch.equal(got[0], values)
    assert torch.equal(got[1], places)


def test_planes_are_left_to_other_definitions():
    x = torch.randn(1, 3, 2, 200)
    compiled = library(Pooled(F.adaptive_avg_pool2d, (1, 3)), x)
    torch.testing.assert_close(compiled(x), F.adaptive_avg_pool2d(x, (1, 3)))
    assert not any("line" in kernel.function for kernel in compiled.kernels)
