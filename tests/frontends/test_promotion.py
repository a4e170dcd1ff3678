"""Operands are cast where PyTorch computes in another type; what is empty is made by nobody."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse.frontends.program.promotion import fill_empty, promote_operands
from tvm_sparse.frontends.quiet import quiet


class Mixed(nn.Module):
    def forward(self, x, n):
        return x * n, torch.exp(n), n + n, n < x, x[:, :0].sum(0)


def _program() -> torch.export.ExportedProgram:
    inputs = (torch.randn(2, 3), torch.arange(3))
    with quiet():
        return torch.export.export(Mixed(), inputs).run_decompositions()


def _calls(program: torch.export.ExportedProgram) -> list[str]:
    return [n.target.__name__ for n in program.graph.nodes if n.op == "call_function"]


def test_operands_of_other_types_are_cast():
    program = _program()
    assert "_to_copy.default" not in _calls(program)
    promote_operands(program)
    # The factor, the exponent and the smaller side of the comparison; a sum of integers has none.
    assert _calls(program).count("_to_copy.default") == 3


def test_what_is_empty_is_filled():
    program = _program()
    fill_empty(program)
    assert "full.default" in _calls(program)
    node = next(n for n in program.graph.nodes if "full" in str(n.target))
    assert 0 in node.args[0]


class Parts(torch.nn.Module):
    """Splits what may have no elements."""

    def __init__(self, sizes):
        super().__init__()
        self.sizes = sizes

    def forward(self, x):
        """Return the parts along the first axis."""
        return x.split(self.sizes)


@pytest.mark.parametrize(("shape", "sizes"), [((0,), [0, 0, 0]), ((0, 3), [0, 0]), ((4,), [0, 4])])
def test_parts_without_elements(shape, sizes):
    x, model = torch.ones(shape), Parts(sizes)
    library = ts.compile(model, (x,), config=ts.Config(measure=False))
    assert [part.shape for part in library(x)] == [part.shape for part in model(x)]
