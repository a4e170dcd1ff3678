"""Layers whose output gets a number added are quantised, and tensors added are fused."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tvm_sparse as ts

pytest.importorskip("torchao")


class Sums(nn.Module):
    """A convolution and a linear layer with numbers added, on either side, and a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(16, 16, 3, padding=1), nn.Conv2d(16, 16, 1)
        self.last = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(batch, 16, rows, columns)`` to ``(batch, 16)``."""
        y = nn.functional.relu6(self.first(x) + 3)
        y = y + self.second(y)
        return 1 + self.last(y.mean((2, 3)))


def test_numbers_that_are_added_to_layers():
    torch.manual_seed(0)
    model, x = Sums().eval(), torch.randn(1, 16, 8, 8)
    program = ts.quantize(model, [x])
    library = ts.compile(program, config=ts.Config(measure=False))
    with torch.no_grad():
        expected, quantised = model(x), program.module()(x)
    assert (quantised - expected).abs().max() < 0.03 * expected.abs().max()
    assert (library(x) - quantised).abs().max() < 1e-5
    assert sum("uint8" in k.function for k in library.kernels if k.layer) == 3
