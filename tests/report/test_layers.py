"""Every contraction has a row with its fraction of the time, ours or not."""

from __future__ import annotations

import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse.report.layers import layer_rows
from tvm_sparse.schedules.kernel import Kernel
from tvm_sparse.selection.decisions import Decision


def test_fractions_of_layers_and_of_products_without_weights():
    decision = Decision("fc", "linear", (8, 8), 0.5, "dense", "dense", "no zeros")
    kernels = [
        Kernel("linear", "fc", "Contraction", 30.0, True),
        Kernel("linear", "fc", "Contraction", 30.0, True),
        Kernel("matmul", "", "Contraction", 20.0, True),
        Kernel("matmul64", "", "Generic", 10.0, True),
        Kernel("softmax", "", "Rows", 10.0),
    ]
    (first, of_first), second, third = layer_rows([decision], kernels)
    assert first is decision
    assert of_first == 0.6
    assert (second[0].operator, second[1]) == ("matmul", 0.2)
    assert "ours" in second[0].reason
    assert (third[0].operator, third[1]) == ("matmul64", 0.1)
    assert "no operator of ours" in third[0].reason


def test_without_times_there_are_no_fractions():
    assert layer_rows([], [Kernel("matmul", "", "Generic", contraction=True)])[0][1] is None


def test_contractions_of_a_compiled_model_have_rows():
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query = nn.Linear(32, 32)

        def forward(self, x):
            q = self.query(x)
            return (q @ q.transpose(1, 2)).softmax(-1) @ x

    library = ts.compile(
        Attention().eval(), (torch.randn(1, 16, 32),), config=ts.Config(measure=False)
    )
    rows = layer_rows(library.decisions, library.kernels)
    assert [d.layer for d, _ in rows] == ["query", *[""] * (len(rows) - 1)]
    assert any("matmul" in d.operator for d, _ in rows)
