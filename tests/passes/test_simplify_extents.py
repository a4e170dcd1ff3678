"""Extents have one form, so that functions of them are fused."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim
from tvm import relax, te, tirx

import tvm_sparse as ts
from tvm_sparse.passes.lower.simplify_extents import SimplifyExtents, _others, _simple

CONFIG = ts.Config(measure=False, cache=False, tuned=False)


def module(extent):
    """Return a program of one function, whose results have such an extent."""
    builder, n = relax.BlockBuilder(), tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType([n, 4], "float32"))
    with builder.function("main", [x]):
        padded = builder.emit_te(lambda a: te.compute((extent(n), 4), lambda i, j: a[i % n, j]), x)
        doubled = builder.emit_te(lambda a: te.compute(a.shape, lambda i, j: a[i, j] * 2), padded)
        builder.emit_func_output(doubled)
    return builder.get()


def test_functions_and_calls_have_the_same_form():
    simple = SimplifyExtents()(module(lambda n: tirx.Add(tirx.const(1, "int64"), n)))
    texts = [str(p.ty) for f in simple.functions.values() for p in f.params]
    assert not any("(1) + n" in text for text in texts), texts
    assert "1) + n" not in simple["main"].script().replace("T.int64(", "")
    relax.transform.FuseTIR()(
        relax.transform.FuseOps()(relax.transform.AnnotateTIROpPattern()(simple))
    )


def test_an_extent_that_is_a_part_of_another_one():
    n, (eight, one) = tirx.Var("n", "int64"), (tirx.const(k, "int64") for k in (8, 1))
    x = te.placeholder((tirx.Mul(eight, n), 4), "float32", "x")
    extent = tirx.Add(tirx.Add(tirx.Mul(eight, n), one), one)
    y = te.compute((extent, 4), lambda i, j: x[te.max(i - 2, 0), j])
    function = te.create_prim_func([x, y])
    assert len([e for param in function.params for e in _others(param.ty)]) == 2
    assert not any(_others(param.ty) for param in _simple(function).params)


def test_simple_extents_stay():
    mod = module(lambda n: n * 2)
    assert SimplifyExtents()(mod).same_as(mod)


class Tokens(nn.Module):
    """Attention of a learned token, and of rows of open length behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.rand(1, 2, 8))
        self.places = nn.Parameter(torch.rand(64, 8))
        self.query = nn.Linear(8, 8)

    def forward(self, x):
        y = torch.cat([self.token[:, :1].expand(x.shape[0], -1, -1), x], 1)
        y = y + self.places[: y.shape[1]]
        y = F.scaled_dot_product_attention(self.query(y), y, y)
        return torch.cat([y, self.token[:, 1:].expand(x.shape[0], -1, -1)], 1)


def test_a_token_in_front_of_an_open_length():
    torch.manual_seed(0)
    model = Tokens().eval().requires_grad_(False)
    shapes = ({1: Dim("n", min=1, max=61)},)
    library = ts.compile(model, (torch.rand(2, 9, 8),), dynamic_shapes=shapes, config=CONFIG)
    for length in (1, 2, 7, 15, 16, 61):
        x = torch.rand(2, length, 8)
        torch.testing.assert_close(library(x), model(x), rtol=1e-5, atol=1e-5)
