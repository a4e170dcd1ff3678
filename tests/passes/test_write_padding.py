"""WritePadding: the copy goes away where it can, and the numbers stay the same."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse.passes import pipeline

CONFIG = ts.Config(measure=False, tuned=False)


class Chain(nn.Module):
    """A first layer, then one that pads; ``twice`` reads the first one's result again."""

    def __init__(self, first: nn.Module, second: nn.Module, twice: bool = False) -> None:
        super().__init__()
        self.first, self.second, self.twice = first, second, twice

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.first(x))
        return self.second(y) + y if self.twice else self.second(y)


def kernels(library: ts.compiler.Library) -> list[str]:
    return [k.function for k in library.kernels]


def exact(model: nn.Module, x: torch.Tensor) -> np.ndarray:
    with torch.no_grad():
        return copy.deepcopy(model).double()(x.double()).numpy()


@pytest.mark.parametrize("size", [7, 18])
@pytest.mark.parametrize(
    "first, second",
    [
        (nn.Conv2d(16, 32, 1), nn.Conv2d(32, 16, 3, padding=1)),
        (nn.Conv2d(16, 32, 3), nn.Conv2d(32, 32, 5, padding=2, stride=2, groups=32)),
        (nn.Conv2d(16, 16, 3, groups=16), nn.Conv2d(16, 16, (3, 1), padding=(1, 0))),
        (nn.Conv2d(16, 24, 1), nn.Conv2d(24, 16, (1, 5), padding=(0, 2))),
        (nn.Sequential(nn.Conv2d(16, 32, 1), nn.MaxPool2d(2)), nn.Conv2d(32, 16, 3, padding=1)),
    ],
)
def test_the_first_layer_writes_the_borders_of_the_second(first, second, size):
    model, x = Chain(first, second).eval(), torch.randn(2, 16, size, size)
    library = ts.compile(model, (x,), config=CONFIG)
    assert sum("bordered" in k for k in kernels(library)) == 1
    assert not any(k.startswith("pad") for k in kernels(library))
    assert all(k.rule for k in library.kernels)
    got = [library(x).numpy() for _ in range(2)]  # borders are zeroed again
    for y in got:
        np.testing.assert_allclose(y, exact(model, x), atol=2e-5)


def test_what_others_read_too_is_copied():
    model = Chain(nn.Conv2d(16, 32, 1), nn.Conv2d(32, 32, 3, padding=1), twice=True).eval()
    x = torch.randn(1, 16, 8, 8)
    library = ts.compile(model, (x,), config=CONFIG)
    assert not any("bordered" in k for k in kernels(library))
    np.testing.assert_allclose(library(x).numpy(), exact(model, x), atol=2e-5)


def test_symbolic_batch():
    model = Chain(nn.Conv2d(16, 32, 1), nn.Conv2d(32, 16, 3, padding=1)).eval()
    x = torch.randn(3, 16, 8, 8)
    program = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("n", max=8)},))
    library = ts.compile(program, config=CONFIG)
    assert any("bordered" in k for k in kernels(library))
    for batch in (1, 3):
        y = library(x[:batch]).numpy()
        np.testing.assert_allclose(y, exact(model, x)[:batch], atol=2e-5)


def test_same_numbers_as_with_copies(monkeypatch):
    model = Chain(nn.Conv2d(16, 32, 1), nn.Conv2d(32, 16, 3, padding=1)).eval()
    x = torch.randn(1, 16, 9, 9)
    fused = ts.compile(model, (x,), config=CONFIG)(x)
    monkeypatch.setattr(pipeline, "WritePadding", lambda rules, report: pipeline.FoldConstants())
    library = ts.compile(model, (x,), config=CONFIG)
    assert any(k.startswith("pad") for k in kernels(library))
    assert torch.equal(fused, library(x))
