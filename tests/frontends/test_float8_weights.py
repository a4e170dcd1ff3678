"""Weights of eight-bit floats are read as the floats that they are."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse.errors import UnsupportedError

CONFIG = ts.Config(measure=False, cache=False, tuned=False)


class Scaled(nn.Module):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(32, 64).to(dtype), requires_grad=False)
        self.register_buffer("scale", torch.rand(32, 1))

    def forward(self, x):
        return nn.functional.linear(x, self.weight.to(x.dtype) * self.scale)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_a_scaled_weight(dtype):
    model, x = Scaled(dtype), torch.randn(4, 64)
    library = ts.compile(model, (x,), config=CONFIG)
    torch.testing.assert_close(library(x), model(x), rtol=1e-5, atol=1e-5)
    assert [layer["layer"] for layer in library.decisions.to_json()]


def test_activations_are_refused_with_their_layer():
    class Narrow(nn.Module):
        def forward(self, x):
            return x.to(torch.float8_e4m3fn).float()

    with pytest.raises(UnsupportedError, match="layer '1': has activations of type float8_e4m3fn"):
        ts.load(nn.Sequential(nn.ReLU(), Narrow()), (torch.randn(2, 4),))


@pytest.mark.filterwarnings("ignore")
def test_weights_of_torchao():
    quantization = pytest.importorskip("torchao.quantization")
    model, x = nn.Sequential(nn.Linear(64, 32)).eval().bfloat16(), torch.randn(4, 64).bfloat16()
    quantization.quantize_(model, quantization.Float8WeightOnlyConfig())
    library = ts.compile(model, (x,), config=CONFIG)
    torch.testing.assert_close(library(x), model(x), rtol=0.02, atol=0.02)
