"""Long chains on bfloat16 compile: they become several kernels."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tvm_sparse as ts

CONFIG = ts.Config(measure=False)


class Chain(nn.Module):
    """Swishes, squares and sums, one behind the other."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.length = length

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i in range(self.length):
            x = x * 0.5 * x + 0.5 if i % 2 else nn.functional.silu(x)
        return x


def kernels(library: ts.Library) -> list[str]:
    return [k.function for k in library.kernels]


@pytest.mark.grid
@pytest.mark.parametrize("length", [3, 12])
def test_chains(length):
    x = torch.randn(4, 64).bfloat16()
    library = ts.compile(Chain(length).eval(), (x,), config=CONFIG)
    assert 1 < len(kernels(library)) <= length
    torch.testing.assert_close(library(x), Chain(length)(x), rtol=2**-6, atol=2**-6)


def test_short_chains_and_layers_stay_one_kernel():
    model = nn.Sequential(nn.Conv2d(16, 16, 1), nn.SiLU()).eval().bfloat16()
    x = torch.randn(1, 16, 8, 8).bfloat16()
    found = kernels(ts.compile(model, (x,), config=CONFIG))
    assert any("conv2d" in name and "sigmoid" in name and "multiply" in name for name in found)


@pytest.mark.grid
@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM])
def test_recurrences(kind):
    torch.manual_seed(0)
    model, x = kind(16, 32, batch_first=True).eval().bfloat16(), torch.randn(1, 3, 16).bfloat16()
    with torch.no_grad():
        expected, _ = model(x)
    found, _ = ts.compile(model, (x,), config=CONFIG)(x)
    torch.testing.assert_close(found, expected, rtol=2**-6, atol=2**-6)


def test_single_precision_is_fused_as_before():
    x = torch.randn(4, 64)
    assert len(kernels(ts.compile(Chain(4).eval(), (x,), config=CONFIG))) == 1
