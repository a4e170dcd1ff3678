"""One tensor for all of a shape in one place of memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

import tvm_sparse as ts
from tvm_sparse.passes.finish.share_tensors import ShareShapes, ShareTensors


@I.ir_module
class Places:
    @R.function(pure=False)
    def main(x: R.Tensor(("n", 4), "float32"), chosen: R.Tensor((), "bool")):
        n = T.int64()
        here = R.memory.alloc_storage(R.shape([1024]), 0, R.str("global"), R.dtype("float32"))
        there = R.memory.alloc_storage(R.shape([1024]), 0, R.str("global"), R.dtype("float32"))
        a = R.memory.alloc_tensor(here, 0, R.shape([n, 4]), R.dtype("float32"), 0)
        b = R.memory.alloc_tensor(there, 0, R.shape([n, 4]), R.dtype("float32"), 0)
        again = R.memory.alloc_tensor(here, 0, R.shape([n, 4]), R.dtype("float32"), 0)
        wide = R.memory.alloc_tensor(here, 0, R.shape([n, 2]), R.dtype("float64"), 0)
        alias = again
        flat = R.reshape(a, R.shape([n * 4]))
        once_more = R.reshape(alias, R.shape([n * 4]))
        other = R.reshape(b, R.shape([n * 4]))
        return (x, chosen, a, b, again, wide, flat, once_more, other)


def bindings(mod):
    """Return what each variable of ``main`` is bound to, as text."""
    return {b.var.name: str(b.value) for b in mod["main"].body.blocks[0].bindings}


def test_places_and_views_of_one_shape_are_made_once():
    before, after = bindings(Places), bindings(ShareTensors()(Places))
    changed = {name: value for name, value in after.items() if value != before[name]}
    assert changed == {"again": "a", "once_more": "flat"}


@I.ir_module
class Shapes:
    @R.function(pure=False)
    def main(heap: R.Tensor((4,), "int64")):
        p = R.call_packed("vm.builtin.make_shape", heap, 2, 1, 0, 0, 64, ty_args=R.Shape(ndim=2))
        q = R.call_packed("vm.builtin.make_shape", heap, 2, 1, 0, 0, 64, ty_args=R.Shape(ndim=2))
        r = R.call_packed("vm.builtin.make_shape", heap, 2, 1, 1, 0, 64, ty_args=R.Shape(ndim=2))
        v = R.call_packed("vm.builtin.shape_of", heap, ty_args=R.Shape(ndim=2))
        w = R.call_packed("vm.builtin.shape_of", heap, ty_args=R.Shape(ndim=2))
        return (p, q, r, v, w)


def test_shapes_of_the_same_extents_are_made_once():
    before, after = bindings(Shapes), bindings(ShareShapes()(Shapes))
    assert {name for name in after if after[name] != before[name]} == {"q"}
    assert after["q"] == "p"


class Chosen(nn.Module):
    """Layers of one shape before, in and behind the branches."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))

    def forward(self, x, chosen):
        first, left, right, last = self.layers
        y = torch.softmax(first(x), 0)
        z = torch.cond(
            chosen,
            lambda y: torch.softmax(left(y), 0) + y,
            lambda y: torch.softmax(torch.softmax(right(y), 0), 0) - y,
            (y,),
        )
        return torch.softmax(last(z), 0) + y, z


@pytest.mark.parametrize("is_open", [False, True])
def test_what_a_branch_makes_is_made_in_the_other_too(is_open):
    model, chosen = Chosen().eval().requires_grad_(False), torch.tensor(True)
    example = (torch.randn(6, 8), chosen)
    shapes = {"dynamic_shapes": ({0: Dim("n", min=1, max=32)}, None)} if is_open else {}
    library = ts.compile(model, example, config=ts.Config(measure=False), **shapes)
    for rows in (1, 6, 31) if is_open else (6,):
        for value in (True, False, True):
            x, chosen = torch.randn(rows, 8), torch.tensor(value)
            kept = library(x, chosen)
            library(torch.randn(rows, 8), ~chosen)  # what a call returned stays what it was
            for found, expected in zip(kept, model(x, chosen), strict=True):
                np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-4, atol=1e-5)
