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


class _Pyramid(nn.Module):
    """A plane beside its means, enlarged, of which each is a layer's."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(4, 16, 3, padding=1), nn.Conv2d(32, 16, 1)
        self.means = nn.ModuleList(nn.Conv2d(16, 8, 1) for _ in range(2))

    def forward(self, x):
        x = self.first(x)
        y = [
            functional.interpolate(
                layer(functional.adaptive_avg_pool2d(x, n)), size=x.shape[2:], mode="bilinear"
            )
            for n, layer in enumerate(self.means, 1)
        ]
        joined = torch.cat((x, *y), 1)
        return self.last(joined.relu()) + self.last(joined)


def test_what_is_resized_for_several_layers():
    torch.manual_seed(0)
    module = _Pyramid().eval()
    dims = {a: torch.export.Dim(f"d{a}", min=2, max=40) for a in (2, 3)}
    config, x = ts.Config(measure=False, tuned=False), torch.randn(1, 4, 12, 20)
    library = ts.compile(module, (x,), dynamic_shapes=(dims,), config=config)
    for height, width in ((2, 3), (4, 4), (7, 5), (16, 9), (11, 31)):
        x = torch.randn(1, 4, height, width)
        torch.testing.assert_close(library(x), module(x), rtol=1e-4, atol=1e-5)
