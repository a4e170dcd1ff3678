"""Writes into tensors that nothing else sees are no writes to the program; other ones stay."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tvm_sparse.frontends.program.in_place import without_writes


def _writes(program):
    schemas = (getattr(node.target, "_schema", None) for node in program.graph.nodes)
    return sum(schema is not None and schema.is_mutable for schema in schemas)


class Model(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def _later(x):
    y = x + 1
    z = y * 2
    F.relu_(y)
    return y, z


def _view(x):
    y = x + 1
    z = y[:2]
    F.relu_(y)
    return y, z


def _dropped(x):
    y = F.dropout(x, 0.5, training=False) + 0
    z = F.dropout(y, 0.5, training=False)
    F.relu_(z)
    return y, z


def _promoted(x):
    y = (x > 0).to(torch.int64) * 3
    y += 1
    return y * 0.5


CASES = {
    "relu": (lambda x: F.relu_(x - 0.5), 0),
    "chain": (lambda x: F.relu_((x - 0.5).add_(x).mul_(3.0)), 0),
    "later": (_later, 0),
    "view": (_view, 1),
    "dropout": (_dropped, 1),
    "input": (lambda x: (x.add_(1), x)[1] * 2, 1),
    "integers": (_promoted, 1),
    "broadcast": (lambda x: (x + 1).mul_(x[:1]), 0),
}


@pytest.mark.parametrize("name", CASES)
def test_results_stay_what_they_were(name):
    function, left = CASES[name]
    x = torch.randn(4, 4)
    program = torch.export.export(Model(function), (x.clone(),))
    found = without_writes(program)
    assert _writes(found) == left
    torch.testing.assert_close(found.module()(x.clone()), function(x.clone()))
