"""Linear layer and convolution whose rows share columns, several of which a lane takes at once."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T
from tvm.target import Target

from tvm_sparse.formats.shared_columns import SharedColumnsFormat
from tvm_sparse.machine.engine.registry import engine_of
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.entries import Entries
from tvm_sparse.ops.contractions.loop_nest import IMPORT
from tvm_sparse.ops.contractions.narrow_rows import NarrowRows
from tvm_sparse.ops.contractions.packed_rows import ramp
from tvm_sparse.ops.contractions.store import declare_offsets
from tvm_sparse.ops.marks import FUSION, OPERATOR, OUT_FUSABLE, int64
from tvm_sparse.ops.transpose import LANES, turn


def shared_columns(
    contraction: Contraction, format: SharedColumnsFormat, target: Target
) -> tirx.PrimFunc:
    """Return ``f(X, values, columns, starts, Y)``; integers have offsets before ``Y``.

    ``Y[n, g*R + i] = sum_ed values[e, i, d] * X[n, columns[e, d]]`` over the entries ``e`` of group
    ``g``. A lane multiplies ``depth`` columns at once, which are no neighbours in memory. So a tile
    of 16 output rows is transposed first (``pack``). The columns of an entry are put side by side
    for each row, once for a group (``gather``): a vector that each of the group's rows multiplies
    by its own weights, broadcast (``contract``). Results are transposed back (``turn``).
    """
    c, s = contraction, format
    engine = engine_of(c.numerics, target)
    plan = NarrowRows(c, engine, 1, s.squares)
    with IRBuilder() as builder, T.prim_func(is_private=True, s_tir=True):
        T.func_name("main")
        T.func_attr({FUSION: OUT_FUSABLE, "tirx.noalias": True})
        x = T.arg("X", T.Buffer(int64(c.input_shape), c.dtype))
        values = T.arg("V", T.Buffer(int64((s.entries, s.group * s.depth)), engine.held))
        entries = Entries.declare((s.entries, s.depth), "int32", s.groups)
        offsets = declare_offsets(c, engine)
        y = T.arg("Y", T.Buffer(int64(c.output_shape), c.out_dtype))
        bits, features = f"uint{c.numerics.bits}", s.groups * s.group
        with T.sblock("root"):
            packed = plan.alloc(bits)
            shape = int64((s.groups, s.longest, plan.width * s.depth))
            gathered = T.sblock_alloc_buffer(shape, bits)
            sums, dtype = int64((features, plan.width)), c.numerics.accumulate
            lanes = T.sblock_alloc_buffer(sums, dtype)
            acc = T.sblock_alloc_buffer(sums[::-1], dtype)
            plan.pack(x, packed)
            _gather(plan, s, entries, packed, gathered)
            _contract(plan, s, entries, (values, gathered), lanes)
            turn(plan.tiles, features // LANES, lanes, acc)
            plan.store(acc, offsets, y)
    return builder.get()


def _gather(
    plan: NarrowRows, s: SharedColumnsFormat, entries: Entries, packed: Any, gathered: Any
) -> None:
    """Emit the block that puts the columns of an entry side by side, for a tile of output rows."""
    extents = (plan.tiles, s.groups, s.longest)
    with T.grid(*int64(extents)) as axes, T.sblock("gather"):
        tile, group, step = T.axis.remap("SSS", axes)
        entry, wide = entries.entry(group, step), LANES * s.depth
        T.reads(packed[tile, 0 : plan.size], *entries.reads(group, entry))
        T.writes(gathered[group, step, tile * wide : tile * wide + wide])
        with T.If(entries.exists(group, step)), T.Then():
            places = [tirx.Cast("int64", entries.columns[entry, i]) for i in range(s.depth)]
            beside = plan.beside(packed, tile, places)
            T.buffer_store(gathered, beside, [group, step, tirx.Ramp(tile * wide, 1, wide)])


def _contract(
    plan: NarrowRows, s: SharedColumnsFormat, entries: Entries, operands: Any, lanes: Any
) -> None:
    """Emit the block that multiplies what is gathered by one feature's weights of an entry."""
    values, gathered = operands
    engine, wide = plan.engine, LANES * s.depth
    extents = (plan.tiles, s.groups, s.group, s.longest)
    with T.grid(*int64(extents)) as axes, T.sblock("contract"):
        tile, group, member, step = T.axis.remap("SSSR", axes)
        entry, first = entries.entry(group, step), member * s.depth
        feature, n = group * s.group + member, tile * LANES
        T.reads(
            gathered[group, step, tile * wide : tile * wide + wide],
            values[entry, first : first + s.depth],
            entries.starts[group : group + 2],
        )
        T.writes(lanes[feature, n : n + LANES])
        T.sblock_attr({OPERATOR: "shared_columns"})
        if engine.code:
            T.sblock_attr({IMPORT: engine.code})
        here = [feature, ramp(n)]
        with T.init():
            T.buffer_store(lanes, engine.zero(LANES), here)
        weights = engine.weights(engine.spread(values, (entry,), first, LANES))
        with T.If(entries.exists(group, step)), T.Then():
            activations = gathered[group, step, tirx.Ramp(tile * wide, 1, wide)]
            total = engine.multiply(lanes[tuple(here)], weights, activations)
            T.buffer_store(lanes, total, here)
