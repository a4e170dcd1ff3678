"""Programs are taken apart as PyTorch takes them apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.modules import Apply
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.frontends.converters.corrected import known_operators
from tvm_sparse.frontends.decompositions import decompositions
from tvm_sparse.frontends.program import taken_apart as own
from tvm_sparse.frontends.program.taken_apart import taken_apart


class _Called(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


ROWS = torch.randn(2, 6, 8)
PLANES = torch.randn(1, 4, 6, 6)
NETWORKS = {
    "linear": (nn.Sequential(nn.Linear(8, 4), nn.Dropout(), nn.GELU()), ROWS),
    "planes": (
        nn.Sequential(nn.Conv2d(4, 8, 3, padding="same"), nn.BatchNorm2d(8), nn.SELU()),
        PLANES,
    ),
    "attention": (_Called(lambda x: F.scaled_dot_product_attention(x, x, x)), ROWS),
    "encoder": (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), ROWS),
    "recurrent": (nn.LSTM(8, 4, bidirectional=True, batch_first=True), ROWS),
    "einsum": (_Called(lambda x: torch.einsum("btk,bsk->bts", x, x)), ROWS),
    "resize": (_Called(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear")), PLANES),
    "padding": (_Called(lambda x: F.pad(x, (1, 2, 0, 1), mode="reflect")), PLANES),
    "pooling": (nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.LogSoftmax(1)), PLANES),
    "indices": (_Called(lambda x: x[:, -1].unflatten(-1, (2, 4)).repeat_interleave(2, 0)), ROWS),
    "statistics": (_Called(lambda x: (x.std(-1), x.kthvalue(2).values, x.diff())), ROWS),
}


@pytest.mark.grid
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("rules", ["ours", "none"])
def test_the_graph_of_a_whole_trace_is_pytorchs(
    name: str, rules: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes, names and arguments are those of ``run_decompositions``."""
    net, x = NETWORKS[name]
    monkeypatch.setattr(own, "spliced", lambda *_: None)
    program = torch.export.export(net.eval(), (x,))
    table = decompositions(known_operators()) if rules == "ours" else {}
    found, wanted = taken_apart(program, table), program.run_decompositions(table)
    assert str(found.graph) == str(wanted.graph)
    assert found.graph_signature == wanted.graph_signature


def test_another_pytorch_takes_it_apart_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where PyTorch's function takes other arguments, its method is called."""
    net, x = NETWORKS["linear"]
    program = torch.export.export(net.eval(), (x,))
    monkeypatch.setattr(own.exported_program, "_decompose_exported_program", lambda: None)
    table = decompositions(known_operators())
    calls = []

    def method(self, table):
        calls.append(table)
        return self

    monkeypatch.setattr(type(program), "run_decompositions", method)
    assert taken_apart(program, table) is program
    assert calls == [table]


def test_what_fails_in_a_part_is_said_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    net, x = NETWORKS["linear"]
    program = torch.export.export(net.eval(), (x,))
    table = decompositions(known_operators())
    wanted = taken_apart(program, table)

    def fail(*_):
        raise ValueError("it")

    monkeypatch.setattr(own, "spliced", fail)
    assert str(taken_apart(program, table).graph) == str(wanted.graph)


def test_results_of_other_axes_are_refused() -> None:
    program = torch.export.export(Apply(torch.sin), (torch.rand(2, 3),))
    table = {torch.ops.aten.sin.default: lambda x: x.unsqueeze(0)}
    with pytest.raises(UnsupportedError, match="output 0: its 2 axes would become 3"):
        taken_apart(program, table)
