"""Contractions over open planes whose lines are shorter than a tile: exact on small integers."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tvm_sparse as ts

LAYERS = {
    "dense": (nn.Conv2d(32, 48, 3, padding=1), 0),
    "dense, strided": (nn.Conv2d(32, 48, 3, 2, 1), 0),
    "balanced": (nn.Conv2d(32, 64, 3, padding=1), 0.75),
    "balanced, pointwise": (nn.Conv2d(64, 64, 1), 0.75),
}


@pytest.mark.parametrize("name", LAYERS)
def test_lines_of_any_length(name):
    layer, sparsity = LAYERS[name]
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randint(1, 4, parameter.shape, generator=generator))
    module = nn.Sequential(layer, nn.ReLU()).eval().requires_grad_(False)
    if sparsity:
        ts.prune.balanced(module, sparsity).squash_mask()
    dims = {a: torch.export.Dim(f"d{a}", min=1, max=40) for a in (2, 3)}

    def plane(height, width):
        shape = (1, layer.in_channels, height, width)
        return torch.randint(-4, 5, shape, generator=generator).float()

    config = ts.Config(measure=False, tuned=False)
    library = ts.compile(module, (plane(16, 16),), dynamic_shapes=(dims,), config=config)
    for height, width in ((1, 1), (2, 3), (3, 4), (5, 5), (7, 7), (2, 8), (4, 9), (3, 13), (6, 17)):
        x = plane(height, width)
        assert torch.equal(library(x), module(x))
