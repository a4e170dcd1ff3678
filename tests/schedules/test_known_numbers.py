"""Numbers of extents alone have no variable, which TVM's analysis would bind twice."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim
from tvm import ir, te, tirx

import tvm_sparse as ts
from tests.modules import Apply
from tvm_sparse.ops.ieee import let
from tvm_sparse.schedules.blocks import nodes
from tvm_sparse.schedules.known_numbers import KnownNumbers

CONFIG = ts.Config(measure=False, cache=False, tuned=False)


def lets(value):
    """Return how many variables are left of ``let v = value(n, i, x[i]); w = v + 1 in w * w``."""
    n = tirx.Var("n", "int64")
    x = te.placeholder((n,), "float32", "X")

    def body(i):
        own = value(n, i, x[i])
        return let(own, lambda v: let(v + own, lambda w: w * w)) + x[i]

    func = te.create_prim_func([x, te.compute((n,), body, "Y")])
    return len(nodes(KnownNumbers()(ir.IRModule({"main": func}))["main"].body, tirx.Let))


def test_what_follows_from_extents_is_written_out():
    assert lets(lambda n, i, x: n.astype("float32") * tirx.const(0.5, "float32")) == 0
    assert lets(lambda n, i, x: (n // 2 + i).astype("float32")) == 0


def test_what_is_read_or_called_is_computed_once():
    assert lets(lambda n, i, x: x * tirx.const(0.5, "float32")) == 2
    assert lets(lambda n, i, x: tirx.exp(n.astype("float32"))) == 2


def length(x, dtype=torch.float64):
    return torch.scalar_tensor(x.shape[1], dtype=dtype) * 0.5


CHOICES = {
    "one": lambda x: torch.where(length(x) != 1, x, -x),
    "one in another": lambda x: torch.where(
        length(x) != 1, x / torch.where(length(x) != 1, length(x) - 1, 1), -x
    ),
    "in single precision": lambda x: torch.where(
        length(x, torch.float32) == 1, x, x * torch.where(length(x, torch.float32) != 3, 2, x)
    ),
    "places": lambda x: torch.where(length(x) != 1, length(x), 0).ceil().long() + x.long(),
}


QUOTIENTS = {
    "places of half a length": lambda x: torch.linspace(0, 1, -(-x.shape[1] // 2)) + x[0, 0],
    "a quotient of a quotient": lambda x: (
        torch.arange(x.shape[1]) % max(x.shape[1] // 3 // 2, 1) + x
    ),
}


@pytest.mark.parametrize(
    "use", [*QUOTIENTS.values(), *CHOICES.values()], ids=[*QUOTIENTS, *CHOICES]
)
def test_quotients_and_choices_of_open_extents(use):
    model, shapes = Apply(use), ({1: Dim("n", min=1, max=80)},)
    library = ts.compile(model, (torch.rand(2, 9),), dynamic_shapes=shapes, config=CONFIG)
    for size in (1, 2, 3, 6, 7, 80):
        x = torch.rand(2, size)
        torch.testing.assert_close(library(x), model(x))
