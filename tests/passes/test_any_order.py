"""Resized open planes between convolutions stay channels last."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

import tvm_sparse as ts


class _Resized(nn.Module):
    """An enlarged plane, and a larger one added to it, between convolutions."""

    def __init__(self, joins, **how):
        super().__init__()
        self.first, self.skip = nn.Conv2d(4, 16, 3, 2, 1), nn.Conv2d(4, 16, 1)
        self.last, self.joins, self.how = nn.Conv2d(32 if joins else 16, 16, 1), joins, how

    def forward(self, x):
        skip = self.skip(x)
        size = {} if "scale_factor" in self.how else {"size": skip.shape[2:]}
        resized = functional.interpolate(self.first(x), **size, **self.how)
        return self.last(torch.cat([resized, skip], 1) if self.joins else resized + skip)


HOW = {
    "linear": {"scale_factor": 2, "mode": "bilinear"},
    "corners": {"mode": "bilinear", "align_corners": True},
    "nearest": {"scale_factor": 2},
    "nearest, of a size": {},
    "cubic": {"scale_factor": 2, "mode": "bicubic"},
}


@pytest.mark.grid
@pytest.mark.parametrize("name", HOW)
@pytest.mark.parametrize("joins", [True, False])
def test_nothing_is_transposed_between_convolutions(name, joins):
    torch.manual_seed(0)
    module, twice = _Resized(joins, **HOW[name]).eval(), "scale_factor" in HOW[name]
    step = 2 if twice else 1
    half = {a: torch.export.Dim(f"d{a}", min=2, max=40) for a in (2, 3)}
    dims = {a: step * dim for a, dim in half.items()} if twice else half
    config, x = ts.Config(measure=False, tuned=False), torch.randn(1, 4, 12, 20)
    library = ts.compile(module, (x,), dynamic_shapes=(dims,), config=config)
    moves = [k.function for k in library.kernels if "turn" in k.function or "transp" in k.function]
    assert len(moves) == 1  # the output
    for height, width in ((2, 3), (4, 4), (7, 5), (16, 9), (11, 31)):
        x = torch.randn(1, 4, step * height, step * width)
        torch.testing.assert_close(library(x), module(x), rtol=1e-4, atol=1e-5)
