"""Partial tiles that overlap: rewritten where all blocks of a group agree, left alone elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import tvm
from tvm import s_tir, te, tirx

import tvm_sparse as ts
from tvm_sparse.schedules.cpu.overlap_tiles import OverlapTiles, overlap, overlapped


def schedule(rows, tile=4, columns=16, lanes=16, *, together=True):
    """Return ``y[r, c] = 2 (x[r, c] + 1)`` in two blocks, tiled like a contraction."""
    x = te.placeholder((rows, columns), "float32", "x")
    acc = te.compute((rows, columns), lambda r, c: x[r, c] + 1.0, name="acc")
    y = te.compute((rows, columns), lambda r, c: acc[r, c] * 2.0, name="y")
    sch = s_tir.Schedule(te.create_prim_func([x, y]))
    first, last = sch.get_sblock("acc"), sch.get_sblock("y")
    row, column = sch.get_loops(last)
    row, inner = sch.split(row, [None, tile])
    column, lane = sch.split(column, [None, lanes])
    sch.reorder(row, column, inner, lane)
    if together:
        sch.compute_at(first, column)
        row_in, lane_in = sch.get_loops(first)[2:]
        sch.unroll(row_in)
        sch.vectorize(lane_in)
    sch.unroll(inner)
    sch.vectorize(lane)
    overlap(sch, *((first, last) if together else (last,)))
    return sch


def conditions(func):
    return func.script().count("T.where")


@pytest.mark.parametrize("rows", [5, 7, 13, 197])
def test_the_last_tile_begins_earlier(rows):
    mod = OverlapTiles()(schedule(rows).mod)
    text = mod["main"].script()
    assert conditions(mod["main"]) == 0
    assert f"T.min(r_0 * 4, {rows - 4})" in text
    x = np.arange(rows * 16, dtype=np.float32).reshape(rows, 16)
    y = tvm.runtime.empty(x.shape, "float32", tvm.cpu())
    tvm.compile(mod, target="llvm")["main"](tvm.runtime.tensor(x), y)
    np.testing.assert_array_equal(y.numpy(), 2 * (x + 1))


def test_an_index_of_fused_loops_is_recognised():
    """Fusing a loop of one step leaves ``t % 2 * 4`` in the condition and ``t * 4`` in the axis."""
    x = te.placeholder((1, 5, 16), "float32", "x")
    sch = s_tir.Schedule(te.create_prim_func([x, te.compute(x.shape, lambda *i: x[i] + 1.0, "y")]))
    batch, row, lane = sch.get_loops(sch.get_sblock("y"))
    row, inner = sch.split(row, [None, 4])
    sch.fuse(batch, row)
    sch.unroll(inner)
    sch.vectorize(lane)
    overlap(sch, sch.get_sblock("y"))
    before = sch.mod["main"]
    assert "%" in before.script() and conditions(before) == 1
    assert conditions(overlapped(before)) == 0


def test_whole_tiles_and_unmarked_functions_stay():
    whole = schedule(8).mod["main"]
    assert overlapped(whole).same_as(whole)
    x = te.placeholder((5,), "float32", "x")
    plain = te.create_prim_func([x, te.compute((5,), lambda i: x[i] + 1.0)])
    assert overlapped(plain).same_as(plain)


def test_an_extent_below_the_tile_stays():
    func = schedule(3, tile=4).mod["main"]
    tvm.ir.assert_structural_equal(overlapped(func), func)


def test_a_symbolic_extent_stays():
    func = schedule(te.var("n", "int32")).mod["main"]
    tvm.ir.assert_structural_equal(overlapped(func), func)


def test_a_condition_of_some_blocks_only_stays():
    """The accumulators of 37 columns fill three vectors; only the result has a partial one."""
    x = te.placeholder((3, 16), "float32", "x")
    acc = te.compute((3, 16), lambda b, i: x[b, i] + 1.0, name="acc")
    y = te.compute((37,), lambda i: acc[i // 16, i % 16] * 2.0, name="y")
    sch = s_tir.Schedule(te.create_prim_func([x, y]))
    first, last = sch.get_sblock("acc"), sch.get_sblock("y")
    out, lane = sch.split(sch.get_loops(last)[0], [None, 16])
    sch.compute_at(first, out)
    sch.vectorize(lane)
    sch.vectorize(sch.get_loops(first)[-1])
    overlap(sch, first, last)
    func = sch.mod["main"]
    assert conditions(func) == 1
    tvm.ir.assert_structural_equal(overlapped(func), func)
    overlap_alone = schedule(5, columns=37, together=False)
    assert conditions(overlapped(overlap_alone.mod["main"])) == 0


def test_one_condition_of_a_conjunction_goes():
    sch = schedule(5, columns=40)
    func = overlapped(sch.mod["main"])
    assert isinstance(func, tirx.PrimFunc)
    text = func.script()
    assert "T.min(r_0 * 4, 1)" in text
    assert "T.min(c_0 * 16, 24)" in text


@pytest.mark.grid
@pytest.mark.parametrize("extent", [16, 20, 33])
def test_a_tile_does_not_read_what_the_one_before_it_stored(extent):
    """TVM stores a step of a chain over the one that it reads: once, elements were made twice."""

    class Chain(torch.nn.Module):
        def forward(self, x):
            for _ in range(9):  # each reads the one before it often, so that chains are cut
                x = x * x * x - x * x + x * 0.5 + 0.25
            return x

    x = torch.linspace(-0.5, 0.5, extent)
    library = ts.compile(Chain(), (x,), config=ts.Config(measure=False, cache=False))
    torch.testing.assert_close(library(x), Chain()(x))
    far = torch.linspace(-9, 9, extent)

    class Bessel(torch.nn.Module):
        def forward(self, x):
            return torch.special.bessel_j1(x)

    library = ts.compile(Bessel(), (far,), config=ts.Config(measure=False, cache=False))
    torch.testing.assert_close(library(far), Bessel()(far), rtol=1e-4, atol=1e-5)
