"""Layers whose rows lie along several open axes have one of them, and are right at every extent."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import tvm_sparse as ts
from tests.opened import poisoned
from tests.opened.judged import CONFIG, far
from tvm_sparse.passes.finish import join_axes

SIZES = [(1, 1, 1), (1, 1, 7), (2, 7, 1), (3, 1, 8), (1, 3, 3), (2, 9, 1), (1, 13, 11), (3, 16, 5)]
"""Batch, height and width: one row, fewer than a tile has, a tile, one more, primes."""


class Layers(nn.Module):
    """Pointwise layers, one after another, around a step."""

    def __init__(self, normed: bool = False) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(16, 64, 1), nn.Conv2d(64, 48, 1)
        self.third, self.last = nn.Linear(48, 64), nn.Conv2d(64, 16, 1)
        self.norm = nn.LayerNorm(48) if normed else nn.Identity()

    def step(self, x: Tensor) -> Tensor:
        """Return what the layers behind take of ``(batch, 48, height, width)``."""
        return x

    def forward(self, x: Tensor) -> Tensor:
        """Return ``(batch, 16, height, width)``."""
        y = self.step(self.second(self.first(x).relu()))
        y = self.third(self.norm(y.permute(0, 2, 3, 1))).relu().permute(0, 3, 1, 2)
        return self.last(y) + x


class Scaled(Layers):
    """A factor for each image and channel: images are not rows alike."""

    def step(self, x: Tensor) -> Tensor:
        """Return as many numbers."""
        return x * x.amax((2, 3), keepdim=True).clamp(-2, 2).round()


class Counted(Layers):
    """Positions and extents are numbers, too."""

    def step(self, x: Tensor) -> Tensor:
        """Return as many numbers."""
        return x + torch.arange(x.shape[3]) - x.shape[2]


class Turned(Layers):
    """Heights and widths change places, and so do rows."""

    def step(self, x: Tensor) -> Tensor:
        """Return as many numbers."""
        return x + x.flip(3)


NETWORKS = {
    "plain": (Layers(), 0.0, 3),
    "pruned": (Layers(), 0.75, 3),
    "scaled": (Scaled(), 0.5, 2),
    "counted": (Counted(), 0.0, 2),
    "turned": (Turned(), 0.75, 2),
    "normed": (Layers(normed=True), 0.75, 4),
}
"""A network, its zeros, and how many of its functions have a single axis of rows at least."""


@pytest.mark.parametrize("name", NETWORKS)
def test_any_extents(name, monkeypatch):
    single, found = join_axes.single_axis, []

    def seen(func):
        found.append(single(func))
        return found[-1]

    monkeypatch.setattr(join_axes, "single_axis", seen)
    monkeypatch.setenv("TVM_NUM_THREADS", "1")
    model, sparsity, least = NETWORKS[name]
    torch.manual_seed(0)
    model.eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.copy_(torch.randint(-2, 3, parameter.shape))
    if sparsity:
        ts.prune.balanced(model, sparsity).squash_mask()
    dims = {
        0: torch.export.Dim("batch", min=1, max=4),
        2: torch.export.Dim("height", min=1, max=20),
        3: torch.export.Dim("width", min=1, max=20),
    }
    x = torch.zeros(2, 16, 5, 6)
    library = ts.compile(model, (x,), dynamic_shapes=(dims,), config=CONFIG)
    assert sum(one is not None for one in found) >= least
    wrong = far(model)
    for batch, height, width in SIZES:
        x = torch.randint(-2, 3, (batch, 16, height, width)).float()
        result = library(x)
        if name == "normed":
            assert not wrong((x,), result), (batch, height, width)
        else:
            assert torch.equal(result, model(x)), (batch, height, width)
        (again,) = poisoned.run(library, (x,))
        assert np.array_equal(again, result.numpy()), (batch, height, width)


@pytest.mark.parametrize("features", [48, 64, 512, 640])
@pytest.mark.parametrize("kind", ["layer norm", "softmax", "logarithm"])
def test_rows_side_by_side(kind, features):
    """Four open rows at a time, the last of which are some of those before."""
    kinds = {
        "layer norm": nn.LayerNorm(features),
        "softmax": nn.Softmax(-1),
        "logarithm": nn.LogSoftmax(-1),
    }
    torch.manual_seed(0)
    model = nn.Sequential(nn.ReLU(), kinds[kind], nn.Hardtanh(-9, 9)).eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.copy_(torch.randn(parameter.shape))
    dims = {
        0: torch.export.Dim("batch", min=1, max=4),
        1: torch.export.Dim("rows", min=1, max=40),
    }
    example = torch.zeros(2, 5, features)
    library = ts.compile(model, (example,), dynamic_shapes=(dims,), config=CONFIG)
    wrong = far(model)
    for batch in (1, 3):
        for rows in (1, 2, 3, 4, 5, 7, 8, 13, 31):
            x = torch.randn(batch, rows, features)
            result = library(x)
            assert not wrong((x,), result), (batch, rows)
            (again,) = poisoned.run(library, (x,))
            assert np.array_equal(again, result.numpy()), (batch, rows)
