"""Linear layer and convolution whose rows share columns, several of which a lane takes at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T
from tvm.target import Target

from tvm_sparse.engine.cpu import Engine
from tvm_sparse.engine.registry import engine_of
from tvm_sparse.formats.shared_columns import SharedColumnsFormat
from tvm_sparse.machine.vector import SUM_BITS
from tvm_sparse.numerics import bits_of
from tvm_sparse.ops.contraction import Contraction
from tvm_sparse.ops.loop_nest import IMPORT, declare_offsets
from tvm_sparse.ops.marks import OPERATOR, OUT_FUSABLE, int64
from tvm_sparse.ops.packed_rows import QUAD_BITS, VECTORS, PackedRows, ramp
from tvm_sparse.ops.transpose import LANES


def shared_columns(
    contraction: Contraction, storage: SharedColumnsFormat, target: Target, vectors: int = 4
) -> tirx.PrimFunc:
    """Return ``f(X, values, columns, starts, Y)``; integers have offsets before ``Y``.

    ``Y[n, g*R + i] = sum_ed values[e, i, d] * X[n, columns[e, d]]`` over the entries ``e`` of group
    ``g``. A lane multiplies ``depth`` columns at once, which are no neighbours in memory. So a tile
    of ``16 * vectors`` output rows is transposed first (``pack``), the columns of an entry are put
    side by side for each row, once for a group (``gather``), and then broadcast to the group's rows
    as those of a block are (``contract``).
    """
    c, s = contraction, storage
    engine = engine_of(c.numerics, target)
    plan = PackedRows(c, engine, vectors)
    with IRBuilder() as builder, T.prim_func(is_private=True, s_tir=True):
        T.func_name("main")
        T.func_attr({"op_pattern": OUT_FUSABLE, "tirx.noalias": True})
        x = T.arg("X", T.Buffer(int64(c.input_shape), c.dtype))
        table = _Table.declare(s, engine)
        offsets = declare_offsets(c, engine)
        y = T.arg("Y", T.Buffer(int64(c.output_shape), c.out_dtype))
        with T.sblock("root"):
            packed = plan.alloc(f"uint{c.numerics.bits}")
            shape = int64((s.groups, s.longest, plan.width))
            gathered = T.sblock_alloc_buffer(shape, f"uint{SUM_BITS}")
            shape = int64((plan.width, s.groups * s.group))
            acc = T.sblock_alloc_buffer(shape, c.numerics.accumulate)
            plan.pack(x, packed)
            _gather(plan, table, packed, gathered)
            _contract(plan, table, gathered, acc)
            plan.store(acc, offsets, y)
    return builder.get()


@dataclass(frozen=True)
class _Table:
    """The parameters of a storage's arrays."""

    s: SharedColumnsFormat
    values: Any
    columns: Any
    starts: Any

    @classmethod
    def declare(cls, s: SharedColumnsFormat, engine: Engine) -> _Table:
        """Emit them."""
        values = T.arg("V", T.Buffer(int64((s.entries, s.group * s.depth)), engine.held))
        columns = T.arg("C", T.Buffer(int64((s.entries, s.depth)), "int32"))
        return cls(s, values, columns, T.arg("S", T.Buffer(int64((s.groups + 1,)), "int32")))

    def entry(self, group: Any, step: Any) -> Any:
        """Return the number of an entry of ``group``."""
        return tirx.Cast("int64", self.starts[group]) + step

    def exists(self, group: Any, step: Any) -> Any:
        """Whether ``group`` has that entry."""
        return step < tirx.Cast("int64", self.starts[group + 1] - self.starts[group])


def _gather(plan: PackedRows, table: _Table, packed: Any, gathered: Any) -> None:
    """Emit the block that puts the columns of an entry side by side, for a tile of output rows."""
    s = table.s
    extents = (s.groups, s.longest, plan.tiles)
    with T.grid(*int64(extents)) as axes, T.sblock("gather"):
        group, step, tile = T.axis.remap("SSS", axes)
        first, entry = tile * plan.span, table.entry(group, step)
        T.reads(
            packed[0 : plan.packed_rows, first : first + plan.span],
            table.columns[entry, 0 : s.depth],
            table.starts[group : group + 2],
        )
        T.writes(gathered[group, step, first : first + plan.span])
        with T.If(table.exists(group, step)), T.Then():
            columns = [tirx.Cast("int64", table.columns[entry, i]) for i in range(s.depth)]
            rows = [T.bind(packed[c, tirx.Ramp(first, 1, plan.span)]) for c in columns]
            size = plan.span // s.depth
            for i, vector in enumerate(_side_by_side(rows, plan.span)):
                words = tirx.reinterpret(f"uint{SUM_BITS}x{size}", vector)
                at = tirx.Ramp(first + i * size, 1, size)
                T.buffer_store(gathered, words, [group, step, at])


def _side_by_side(columns: list[Any], span: int) -> list[Any]:
    """Return the lanes of several vectors beside one another, in the order of :func:`_place`.

    Lanes move within quads of 128 bits only, which takes one instruction of every x86 a vector.
    """
    if len(columns) == 1:
        return columns
    half = len(columns) // 2
    quad = QUAD_BITS // bits_of(str(columns[0].ty.dtype).partition("x")[0])
    left, right = (_side_by_side(part, span) for part in (columns[:half], columns[half:]))
    found = []
    for a, b in zip(left, right, strict=True):
        for begin in (0, quad // 2):
            runs = [
                first + begin + at + which
                for first in range(0, span, quad)
                for at in range(0, quad // 2, half)
                for which in (0, span)
            ]
            lanes = [tirx.const(run + i, "int32") for run in runs for i in range(half)]
            found.append(T.bind(tirx.Shuffle([a, b], lanes)))
    return found


def _place(n: Any, span: int, depth: int) -> Any:
    """Return where the columns of output row ``n`` are: see :func:`_side_by_side`."""
    quad = QUAD_BITS // SUM_BITS
    inside, rows = n % span, quad * depth
    vector, which = inside % rows // quad, inside // rows
    return n // span * span + vector * (span // depth) + which * quad + inside % quad


def _contract(plan: PackedRows, table: _Table, gathered: Any, acc: Any) -> None:
    """Emit the block that multiplies a vector of an entry's weights by one output row."""
    s, engine = table.s, plan.engine
    wide = LANES * s.depth
    extents = (plan.width, s.groups, s.group // LANES, s.longest)
    with T.grid(*int64(extents)) as axes, T.sblock("contract"):
        n, group, member, step = T.axis.remap("SSSR", axes)
        entry, first = table.entry(group, step), member * wide
        feature = group * s.group + member * LANES
        tile = n // plan.span * plan.span
        T.reads(
            gathered[group, step, tile : tile + plan.span],
            table.values[entry, first : first + wide],
            table.starts[group : group + 2],
        )
        T.writes(acc[n, feature : feature + LANES])
        T.sblock_attr({OPERATOR: "shared_columns", VECTORS: plan.vectors})
        if engine.code:
            T.sblock_attr({IMPORT: engine.code})
        here = [n, ramp(feature)]
        with T.init():
            T.buffer_store(acc, engine.zero(LANES), here)
        word = tirx.Broadcast(gathered[group, step, _place(n, plan.span, s.depth)], LANES)
        activations = tirx.reinterpret(f"uint{SUM_BITS // s.depth}x{wide}", word)
        weights = engine.weights(table.values[entry, tirx.Ramp(first, 1, wide)])
        with T.If(table.exists(group, step)), T.Then():
            total = engine.multiply(acc[tuple(here)], weights, activations)
            T.buffer_store(acc, total, here)
