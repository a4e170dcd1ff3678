"""Sums of many floats: not added up one by one, which rounds as often."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

import tvm_sparse as ts
from tests.modules import Apply

CONFIG = ts.Config(measure=False, cache=False)

SUMS = {
    "few columns": (lambda x: x.sum(0), (200_001, 3)),
    "odd columns": (lambda x: x.mean(0), (100_001, 37)),
    "columns": (lambda x: x.sum(0), (50_000, 80)),
    "columns of squares": (lambda x: (x * x).sum(0), (100_000, 40)),
    "planes behind": (lambda x: x.mean((1, 2)), (2, 200, 200, 32)),
    "all squares": (lambda x: (x * x).mean(), (4, 64, 64, 64)),
    "rows": (lambda x: x.mean(1), (2, 200_000)),
    "deviations": (lambda x: x.std((2, 3)), (1, 4, 300, 300)),
}


def share(found, exact):
    """Return the largest difference, of the largest number."""
    return float((found.double() - exact).abs().max() / exact.abs().max())


@pytest.mark.parametrize("name", SUMS)
def test_sums(name):
    function, shape = SUMS[name]
    x = 0.12 + torch.rand(shape, generator=torch.Generator().manual_seed(0)) / 100
    library = ts.compile(Apply(function), (x,), config=CONFIG)
    assert share(library(x), function(x.double())) < 3e-6


def test_an_open_sum_of_all_elements():
    def function(x):
        return (x * x).mean()

    shapes = ({1: Dim("n", min=1, max=1 << 20)},)
    library = ts.compile(Apply(function), (torch.rand(3, 7),), dynamic_shapes=shapes, config=CONFIG)
    for columns in (1, 2, 15, 64, 65, 200_000):
        x = 0.12 + torch.rand(3, columns) / 100
        assert share(library(x), function(x.double())) < 1e-5


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("norm", [nn.InstanceNorm2d(32), nn.GroupNorm(4, 32)])
def test_norms_of_large_planes(norm, is_open):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(8, 32, 3, padding=1), nn.ReLU(), norm).eval()
    x = torch.randn(1, 8, 200, 200)
    x[:, :, 0, 0] = 30  # beside what is far away, all others are added to a large sum
    dims = {2: Dim("h", min=2, max=512), 3: Dim("w", min=2, max=512)}
    shapes = (dims,) if is_open else None
    library = ts.compile(net.requires_grad_(False), (x,), dynamic_shapes=shapes, config=CONFIG)
    found = library(x)
    assert share(found, net.double()(x.double())) < 2e-6
    net.float()


@pytest.mark.parametrize("shape", [(6, 300, 300), (6, 2, 3), (6, 64, 65)])
def test_norms_of_open_rows(shape):
    dims = {2: Dim("h", min=2, max=512), 3: Dim("w", min=2, max=512)}
    model = Apply(lambda x: F.group_norm(x, 2))
    library = ts.compile(model, (torch.rand(1, 6, 9, 9),), dynamic_shapes=(dims,), config=CONFIG)
    x = 1 + torch.rand(1, *shape)
    assert share(library(x), F.group_norm(x.double(), 2)) < 2e-6
