"""Convolutions by Winograd over planes of open extents, as they stand in networks."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim

import tvm_sparse as ts

CONFIG = ts.Config(measure=False, force={"body*": "winograd"})


class Network(nn.Module):
    """Two convolutions by Winograd behind one with a stride, and the sum with what they read."""

    def __init__(self, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, stride, 1)
        self.body = nn.Sequential(
            *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU()), nn.Conv2d(32, 16, 3, padding=1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        return torch.relu(y + self.body(y))


@pytest.mark.grid(14)
@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize(
    "unit, stride, least",
    [(1, 1, 2), (1, 2, 3), (1, 4, 5), (4, 1, 2), (3, 2, 2), (32, 1, 2), (40, 1, 2)],
    ids=str,
)
def test_as_eager(monkeypatch, threads, unit, stride, least):
    monkeypatch.setenv("TVM_NUM_THREADS", threads)
    torch.manual_seed(0)
    model = Network(stride).eval()
    height, width = (Dim(name, min=least, max=400 // unit) for name in ("h", "w"))
    dims = {2: unit * height if unit > 1 else height, 3: unit * width if unit > 1 else width}
    example = torch.randn(1, 3, *(unit * max(n * least, 40 // unit) for n in (2, 3)))
    library = ts.compile(model, (example,), dynamic_shapes=(dims,), config=CONFIG)
    rules = {k.layer: k.rule for k in library.kernels if k.layer}
    assert rules["body.0"] == rules["body.2"] == "Winograd"
    for plane in ((0, 0), (2 * least + 1, 20), (33, 8), (7, 65), (97, 40)):
        x = torch.randn(1, 3, *(max(least, extent // unit) * unit for extent in plane))
        torch.testing.assert_close(library(x), model(x), rtol=1e-4, atol=1e-4)


def test_squares():
    torch.manual_seed(0)
    model = Network(1).eval()
    dims = dict.fromkeys((2, 3), Dim("size", min=2, max=100))
    library = ts.compile(model, (torch.randn(1, 3, 9, 9),), dynamic_shapes=(dims,), config=CONFIG)
    for extent in (2, 17, 40):
        x = torch.randn(1, 3, extent, extent)
        torch.testing.assert_close(library(x), model(x), rtol=1e-4, atol=1e-4)


def test_an_open_height_alone():
    torch.manual_seed(0)
    model = Network(1).eval()
    library = ts.compile(
        model,
        (torch.randn(2, 3, 9, 13),),
        dynamic_shapes=({0: Dim("n", max=8), 2: Dim("h", min=2, max=100)},),
        config=CONFIG,
    )
    for batch, rows in ((1, 2), (3, 17), (2, 64)):
        x = torch.randn(batch, 3, rows, 13)
        torch.testing.assert_close(library(x), model(x), rtol=1e-4, atol=1e-4)


class Forked(nn.Module):
    """A convolution whose clamped sums are read twice by what stores them."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.hardswish(self.body(x) + x)
        return nn.functional.hardswish(y) + y


@pytest.mark.parametrize("threads", ["1", "2"])
def test_what_is_stored_before_two_readers(monkeypatch, threads):
    monkeypatch.setenv("TVM_NUM_THREADS", threads)
    torch.manual_seed(0)
    model = Forked().eval()
    shapes = ({2: Dim("h", min=2, max=100), 3: Dim("w", min=2, max=100)},)
    library = ts.compile(model, (torch.randn(1, 16, 20, 30),), dynamic_shapes=shapes, config=CONFIG)
    for plane in ((2, 3), (17, 8), (40, 71)):
        x = torch.randn(1, 16, *plane)
        torch.testing.assert_close(library(x), model(x), rtol=1e-4, atol=1e-4)
