"""Fused functions that need an extent as a number, and another one for the tensors they get."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim

import tvm_sparse as ts


class Moved(nn.Module):
    """Sorted rows, the negative ones moved by the number of another tensor's rows."""

    def forward(self, x, other):
        rows = torch.cat([x, x[1:]]).sort(0).values
        return torch.where(rows < 0, rows + other.shape[0], rows).relu()


def test_numbers_beside_computed_extents():
    rows, others = Dim("h", min=2, max=20), Dim("w", min=2, max=20)
    x, other = torch.arange(-5, 5).reshape(5, 2), torch.rand(7)
    config = ts.Config(measure=False, cache=False)
    library = ts.compile(
        Moved(), (x, other), dynamic_shapes=({0: rows}, {0: others}), config=config
    )
    for height, width in ((2, 2), (5, 7), (20, 3)):
        x, other = torch.randint(-9, 9, (height, 2)), torch.rand(width)
        assert torch.equal(library(x, other), Moved()(x, other))
