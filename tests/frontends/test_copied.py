"""Copies of programs keep the names that signatures have."""

from __future__ import annotations

import torch
from torch import nn

from tvm_sparse.frontends.program.copied import copied


class Named(nn.Module):
    """An input with the name of one of Python's functions."""

    def forward(self, input):
        return input.view(-1) + 1


def test_names_stay():
    program = torch.export.export(Named(), (torch.zeros(2, 3),))
    result = copied(program)
    assert [n.name for n in result.graph.nodes] == [n.name for n in program.graph.nodes]
    assert result.graph is not program.graph
    assert set(program.graph_signature.user_inputs) <= {n.name for n in result.graph.nodes}
