"""Conditions of selections bind nothing, and what they bound is bound in front of them."""

from __future__ import annotations

import pytest
import torch
import tvm
from torch import nn
from torch.export import Dim
from tvm import te, tirx

import tvm_sparse as ts
from tvm_sparse.schedules.blocks import nodes
from tvm_sparse.schedules.lifted_bindings import LiftedBindings


def lifted(condition):
    x = te.placeholder((8,), "float32", "X")
    y = te.compute((8,), lambda i: tirx.Select(condition(x[i]), x[i], x[i] + 1))
    mod = tvm.IRModule({"main": te.create_prim_func([x, y])})
    return mod["main"], LiftedBindings()(mod)["main"]


def bound(value, body):
    var = tirx.Var("v", "float32")
    return tirx.Let(var, value, body(var))


@pytest.mark.parametrize(
    "condition",
    [
        lambda x: bound(x, lambda v: v <= 1),
        lambda x: bound(x, lambda v: bound(v * 2, lambda w: tirx.And(v <= w, w <= v))),
        lambda x: bound(bound(x, lambda u: u * u), lambda v: bound(v, lambda w: v < w + v)),
    ],
    ids=["one", "one in another", "one in the value of another"],
)
def test_what_a_condition_binds_is_bound_in_front_of_it(condition):
    before, after = lifted(condition)
    (chosen,) = nodes(after.body, tirx.Select)
    assert not nodes(chosen.condition, tirx.Let)
    assert len(nodes(after.body, tirx.Let)) == len(nodes(before.body, tirx.Let))
    assert "v" not in {v.name for v in tirx.analysis.undefined_vars(after.body)}


def test_bindings_behind_a_branch_stay():
    before, after = lifted(
        lambda x: tirx.if_then_else(x > 0, bound(x, lambda v: v <= 1), x < -1),
    )
    tvm.ir.assert_structural_equal(before, after)


class Causal(nn.Module):
    """The mask of PyTorch's tutorial on transformers, of as many steps as there are."""

    def forward(self, x):
        steps = x.shape[1]
        seen = (torch.triu(torch.ones(steps, steps)) == 1).transpose(0, 1)
        mask = seen.float().masked_fill(seen == 0, float("-inf")).masked_fill(seen == 1, 0.0)
        return torch.softmax(x @ x.mT + mask, -1)


def test_masks_of_open_length_are_built():
    shapes = ({0: Dim("batch", min=1, max=8), 1: Dim("steps", min=1, max=40)},)
    config = ts.Config(measure=False, cache=False)
    library = ts.compile(Causal(), (torch.randn(2, 9, 16),), dynamic_shapes=shapes, config=config)
    for size in (1, 9, 16, 33):
        x = torch.randn(3, size, 16)
        torch.testing.assert_close(library(x), Causal()(x))
