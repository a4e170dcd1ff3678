"""Graphs that torchao's quantizer reads: each use of a module is told apart."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.quantization.quantized import layers_in_bytes
from tvm_sparse.errors import InputError
from tvm_sparse.quantization.tracing import traced

pytest.importorskip("torchao")


class Twice(nn.Module):
    """Layers and activations that are used twice, and functions instead of modules."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.relu = nn.Conv2d(16, 16, 1), nn.ReLU()
        self.ring = nn.Conv2d(16, 16, 3, padding=1, padding_mode="circular")
        self.linear = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(batch, 16, rows, columns)`` to ``(batch, 16)``."""
        y = self.relu(self.conv(self.relu(self.conv(x))) + x)
        y = nn.functional.hardswish(self.ring(y)).mean((2, 3))
        return self.relu(nn.functional.linear(torch.tanh(self.linear(y)), self.linear.weight))


def test_modules_that_are_used_twice():
    torch.manual_seed(0)
    assert layers_in_bytes(Twice().eval(), torch.randn(1, 16, 8, 8)) == 5


def test_layers_inside_of_attention():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 2, 64, dropout=0, batch_first=True).eval()
    assert layers_in_bytes(layer, torch.randn(1, 8, 32)) == 4


def test_models_that_cannot_be_traced():
    class Branch(nn.Module):
        def forward(self, x):
            """Decide by a value."""
            return x if x.sum() > 0 else -x

    with pytest.raises(InputError, match="cannot be traced"):
        traced("quantize", Branch(), ((torch.ones(2),), {}))
