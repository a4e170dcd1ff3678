"""Vectors at the ends of tensors: shorter ones, without conditions of lanes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import tvm
import tvm_ffi
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from tvm import s_tir, te, tirx

import tvm_sparse as ts
from tests.kernels import integers
from tests.ops.test_balanced import assert_exact
from tests.schedules.layers import prune
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.schedules.cpu.partial_vectors import PartialVectors


def schedule(rows, columns, lanes, blocks):
    """Return ``y[r, c] = 2 x[r, c] + 1`` in squares, ``blocks`` of which are beside each other."""
    x = te.placeholder((rows, columns), "float32", "x")
    y = te.compute((rows, columns), lambda r, c: x[r, c] * 2.0 + 1.0, name="y")
    sch = s_tir.Schedule(te.create_prim_func([x, y]))
    row, column = sch.get_loops(sch.get_sblock("y"))
    tile, inner = sch.split(row, [None, 4])
    group, block, lane = sch.split(column, [None, blocks, lanes])
    sch.reorder(tile, group, block, inner, lane)
    sch.unroll(inner)
    sch.vectorize(lane)
    return sch.mod


def lanes_with_conditions(func):
    """Return the vectors of ``func`` that have a condition on their lane."""
    found = []

    def see(loop):
        terms = getattr(loop.body, "predicate", None)
        variables = tirx.analysis.undefined_vars(terms) if terms is not None else []
        if loop.kind == tirx.ForKind.VECTORIZED:
            found.extend(v for v in variables if v.same_as(loop.loop_var))

    tvm_ffi.structural_walk(func.body, (tirx.For, see))
    return found


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 9),
    st.integers(1, 70),
    st.sampled_from([4, 8, 16]),
    st.integers(1, 3),
)
def test_ends_of_tensors(rows, columns, lanes, blocks):
    mod = PartialVectors()(schedule(rows, columns, lanes, blocks))
    assert not lanes_with_conditions(mod["main"]) or columns % lanes == 1
    x = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    y = tvm.runtime.empty(x.shape, "float32", tvm.cpu())
    tvm.compile(mod, target="llvm")["main"](tvm.runtime.tensor(x), y)
    np.testing.assert_array_equal(y.numpy(), 2 * x + 1)


@pytest.mark.parametrize("features", [17, 33, 49])
def test_a_single_element_at_the_end(features):
    """TVM took its place for the bounds of a buffer outside of the loops that it depends on."""
    matrix = integers(np.random.default_rng(0), (features, 16), 0.5)
    assert_exact(Contraction((5,), 16, features), matrix)


def test_what_has_no_conditions_of_lanes_stays():
    once = PartialVectors()(schedule(5, 40, 16, 1))
    assert PartialVectors()(once)["main"].same_as(once["main"])


@pytest.mark.grid
@pytest.mark.parametrize("features", [24, 38])
def test_features_that_are_no_whole_vectors(features):
    """152 features by 785 rows and a sum took LLVM 20 s."""

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(64, features)

        def forward(self, x, y):
            """Map ``(rows, 64)`` and ``(rows, features)`` to ``(rows, features)``."""
            return self.linear(x) + y

    torch.manual_seed(0)
    model = Layer()
    prune(model, 1, 1, 0.75)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(100).round_().div_(4)
        x, y = torch.randint(-4, 5, (35, 64)).float(), torch.randint(-4, 5, (35, features)).float()
        library = ts.compile(model, (x, y), config=ts.Config(force={"linear": "unstructured"}))
        torch.testing.assert_close(library(x, y), model(x, y), rtol=0, atol=0)
