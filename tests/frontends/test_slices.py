"""Slices of open extents meet other tensors of the same extents."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim

import tvm_sparse as ts
from tests.modules import Apply

CONFIG = ts.Config(measure=False, cache=False, tuned=False)

SLICES = {
    "a table's beginning": lambda x, table: x + table[:, : x.shape[1]],
    "all but the first": lambda x, table: x[:, 1:] * table[:, : x.shape[1] - 1],
    "all but the last": lambda x, table: x[:, :-1] - x[:, 1:],
    "the middle": lambda x, table: x[:, 1:-1] + x[:, 2:],
    "the last two": lambda x, table: x[:, -2:] + table[:, :2],
    "a fixed axis": lambda x, table: x[..., :2] + x[..., -2:],
    "beyond a fixed axis": lambda x, table: x[..., 1:9] + torch.relu(x[..., ::2]),
    "every other": lambda x, table: torch.relu(x[:, ::2]),
}


class Sliced(nn.Module):
    def __init__(self, define) -> None:
        super().__init__()
        self.define = define
        self.register_buffer("table", torch.randn(1, 64, 3))

    def forward(self, x):
        return self.define(x, self.table)


@pytest.mark.grid
@pytest.mark.parametrize("name", SLICES)
def test_slices_of_open_extents(name):
    torch.manual_seed(0)
    model = Sliced(SLICES[name])
    length = Dim("length", min=4, max=64)
    library = ts.compile(model, (torch.randn(2, 9, 3),), dynamic_shapes=({1: length},))
    for extent in (4, 9, 33, 64):
        x = torch.randn(2, extent, 3)
        torch.testing.assert_close(library(x), model(x))


PARTS = {
    "every other": lambda x: x[:, ::2],
    "every third, from the second": lambda x: x[:, 1::3],
    "one half": lambda x: x[:, : x.shape[1] // 2],
    "the other half": lambda x: x[:, x.shape[1] // 2 :],
}


@pytest.mark.grid
@pytest.mark.parametrize("name", PARTS)
def test_layers_of_parts(name):
    """What layers compute is fused by the form of its extents, which is that of the part."""
    torch.manual_seed(0)
    model = nn.Sequential(Apply(PARTS[name]), nn.Linear(32, 20), nn.ReLU()).eval()
    shapes = ({1: Dim("length", min=4, max=40)},)
    library = ts.compile(model, (torch.rand(2, 9, 32),), dynamic_shapes=shapes, config=CONFIG)
    for extent in (4, 5, 16, 33, 40):
        x = torch.rand(2, extent, 32)
        torch.testing.assert_close(library(x), model(x), rtol=1e-4, atol=1e-5)
