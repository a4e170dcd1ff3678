"""Transpositions of open shapes: tiles of two sides, sides of fewer elements, any batch."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse.ops.tensors.open_turn import Turn

CASES = {
    "channels behind planes": ((0, 2, 3, 1), ("b", 20, "h", "w")),
    "channels before planes": ((0, 3, 1, 2), (2, "h", "w", 33)),
    "lines": ((0, 2, 1), ("b", "h", 16)),
    "both sides open": ((0, 1, 3, 2), (2, 3, "h", "w")),
    "all of a matrix": ((1, 0), ("h", "w")),
    "channels of volumes": ((0, 4, 1, 2, 3), (1, "h", 3, "w", 17)),
}
SIZES = ((1, 2, 1), (2, 1, 17), (3, 3, 5), (1, 4, 4), (2, 7, 7), (1, 16, 16), (2, 31, 33))


class _Turned(nn.Module):
    def __init__(self, order):
        super().__init__()
        self.order = order

    def forward(self, x):
        return x.permute(self.order).contiguous()


@pytest.mark.parametrize("name", CASES)
def test_any_extents(name):
    order, axes = CASES[name]
    dims = {d: torch.export.Dim(d, min=1, max=40) for d in ("b", "h", "w") if d in axes}
    open_ones = {axis: dims[d] for axis, d in enumerate(axes) if d in dims}

    def tensor(batch, height, width):
        known = {"b": batch, "h": height, "w": width}
        return torch.randn([known.get(e, e) for e in axes])

    config = ts.Config(measure=False, tuned=False)
    module = _Turned(order)
    library = ts.compile(module, (tensor(3, 10, 12),), dynamic_shapes=(open_ones,), config=config)
    assert "open_turn" in " ".join(kernel.function for kernel in library.kernels)
    for size in SIZES:
        x = tensor(*size)
        assert torch.equal(library(x), module(x))


def test_sums_are_turned_behind_what_adds_them():
    """A sum of what comes first and a layer's result, for the next layer."""
    torch.manual_seed(0)
    layers = nn.Conv2d(20, 20, 1), nn.Conv2d(20, 20, 1)

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(layers)

        def forward(self, x):
            return self.layers[1](x + self.layers[0](x))

    module = Both().eval().requires_grad_(False)
    for parameter in module.parameters():
        parameter.copy_(torch.randint(-3, 4, parameter.shape))
    dims = {axis: torch.export.Dim(n, min=1, max=40) for axis, n in ((2, "h"), (3, "w"))}
    config = ts.Config(measure=False, tuned=False)
    library = ts.compile(module, (torch.zeros(1, 20, 9, 7),), dynamic_shapes=(dims,), config=config)
    assert not [
        k.function for k in library.kernels if "add" in k.function and "trans" in k.function
    ]
    for _, height, width in SIZES:
        x = torch.randint(-3, 4, (1, 20, height, width)).float()
        assert torch.equal(library(x), module(x))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (0, 3, 2, 1), (1, 0, 3, 2)])
def test_other_orders_are_none(order):
    assert Turn.of(order) is None
