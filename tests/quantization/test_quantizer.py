"""Layers whose output gets a number added are quantized; integers stay what they are."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.quantization.quantized import layers_in_bytes

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
    assert layers_in_bytes(Sums().eval(), torch.randn(1, 16, 8, 8)) == 3


class Places(nn.Module):
    """A lookup of places that are products of integers, as in RoBERTa."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.last = nn.Embedding(16, 16), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(batch, 16)`` to ``(batch, 16, 16)``."""
        there = (x > 0).int()
        return self.last(self.table(torch.cumsum(there, 1).int() * there - 1 + (1 - there)))


def test_products_of_integers_stay_exact():
    torch.manual_seed(0)
    assert layers_in_bytes(Places().eval(), torch.randn(2, 16)) == 1
