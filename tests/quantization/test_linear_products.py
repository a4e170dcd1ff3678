"""Products with a weight, however they are written, are quantized as linear layers are."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.quantization.quantized import layers_in_bytes
from tvm_sparse.quantization.tracing import traced

pytest.importorskip("torchao")


class Products(nn.Module):
    """``addmm``, ``matmul`` with a weight and with one turned, and a weight that is added, too."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = (
            nn.Parameter(torch.randn(16, 24) / 8),
            nn.Parameter(torch.randn(24)),
        )
        self.back, self.square = (nn.Parameter(torch.randn(n, 24) / 8) for n in (16, 24))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(rows, 16)`` to ``(rows, 24)``."""
        y = torch.addmm(self.bias, x, self.weight).tanh()
        z = (y.unsqueeze(0) @ self.back.t()).tanh().squeeze(0) @ self.weight
        return torch.addmm(self.square[0], z.tanh(), self.square, beta=1)


def test_products_are_linear_layers():
    torch.manual_seed(0)
    model, x = Products().eval(), torch.randn(5, 16)
    graph = traced("quantize", model, ((x,), {}))
    torch.testing.assert_close(graph(x), model(x))
    names = [node.target for node in graph.graph.nodes if node.op == "call_function"]
    assert names.count(torch.ops.aten.linear.default) == 3
    assert names.count(torch.ops.aten.addmm.default) == 1  # its weight is read elsewhere


def test_products_are_quantized():
    torch.manual_seed(0)
    assert layers_in_bytes(Products().eval(), torch.randn(5, 16)) == 3
