"""Sums of compressed rows with lanes along the batch, for any layout of the activations."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.engine.cpu import Engine
from tvm_sparse.formats.compressed_rows import CompressedRowsFormat
from tvm_sparse.ops.contraction import Contraction
from tvm_sparse.ops.emit import whole
from tvm_sparse.ops.marks import OPERATOR, OUT_FUSABLE, int64
from tvm_sparse.ops.packed_rows import VECTORS, ramp
from tvm_sparse.ops.transpose import LANES

CHAINS = 4
"""Multiply-adds that should not wait for one another: one takes as many cycles."""


class Plan(Protocol):
    """Extents of one operator, and where its activations lie."""

    operator: ClassVar[str]

    @property
    def c(self) -> Contraction:
        """What is computed."""

    @property
    def s(self) -> CompressedRowsFormat:
        """How the weight is stored."""

    @property
    def engine(self) -> Engine:
        """What multiplies."""

    @property
    def vectors(self) -> int:
        """Vectors of output rows of a tile."""

    @property
    def span(self) -> int:
        """Output rows of a tile."""

    @property
    def tiles(self) -> Any:
        """Tiles of output rows."""

    def alloc(self, dtype: str) -> Any:
        """Emit the buffer of the transposed input."""

    def pack(self, x: tirx.Buffer, packed: tirx.Buffer) -> None:
        """Emit the block that transposes the input."""

    @property
    def input_shape(self) -> tuple[Any, ...]:
        """Shape of the input."""

    @property
    def output_shape(self) -> tuple[Any, ...]:
        """Shape of the output."""

    def results(self, lanes: tirx.Buffer, y: tirx.Buffer) -> None:
        """Emit the blocks that bring sums ``(features, rows)`` to the output."""

    def read(self, packed: tirx.Buffer, row_tile: Any, first: Any) -> Any:
        """Return the region of ``packed`` that a row tile reads for rows from ``first`` on."""

    def place(self, row_tile: Any, across: Any, stored: Any, k: int, n: Any) -> list[Any]:
        """Return the index of the activations that an entry's column ``k`` meets in row ``n``.

        ``stored`` is what the storage says of the entry's first column, in column tile ``across``.
        """


def lane_sums(plan: Plan, columns: str) -> tirx.PrimFunc:
    """Return ``f(X, values, columns, starts[, groups], Y)``; ``columns`` is the second's type."""
    c = plan.c
    with IRBuilder() as builder, T.prim_func(is_private=True, s_tir=True):
        T.func_name("main")
        T.func_attr({"op_pattern": OUT_FUSABLE, "tirx.noalias": True})
        x = T.arg("X", T.Buffer(int64(plan.input_shape), c.dtype))
        stored = _declare(plan.s, plan.engine, columns)
        y = T.arg("Y", T.Buffer(int64(plan.output_shape), c.out_dtype))
        width, features = plan.tiles * plan.span, plan.s.row_tiles * plan.s.tile_rows
        with T.sblock("root"):
            packed, dtype = plan.alloc(c.dtype), c.numerics.accumulate
            lanes = T.sblock_alloc_buffer(int64((features, width)), dtype)
            plan.pack(x, packed)
            _contract(plan, packed, stored, lanes)
            plan.results(lanes, y)
    return builder.get()


def _declare(s: CompressedRowsFormat, engine: Engine, columns: str) -> list[Any]:
    """Declare the parameters of the storage's arrays."""
    values = T.arg("V", T.Buffer(int64((s.entries, s.run, s.group)), engine.held))
    places = T.arg("C", T.Buffer(int64((s.entries,)), columns))
    starts = T.arg("S", T.Buffer(int64((s.slots + 1,)), "int32"))
    if s.tile_groups == 1:
        return [values, places, starts]
    return [values, places, starts, T.arg("G", T.Buffer(int64((s.slots,)), str(s.group_dtype)))]


def _contract(plan: Plan, packed: tirx.Buffer, stored: list[Any], lanes: Any) -> None:
    """Emit the block that computes one row tile of the weight for one tile of output rows."""
    s = plan.s
    starts = stored[2]
    with T.grid(*int64((plan.tiles, s.row_tiles))) as axes, T.sblock("contract"):
        tile, row_tile = T.axis.remap("SS", axes)
        first, feature = tile * plan.span, row_tile * s.tile_rows
        T.reads(plan.read(packed, row_tile, first), *map(whole, stored))
        T.writes(lanes[feature : feature + s.tile_rows, first : first + plan.span])
        T.sblock_attr({OPERATOR: plan.operator, VECTORS: plan.vectors})
        each = s.group * plan.span
        chains = max(1, CHAINS // (each // LANES * s.run))
        sums = T.sblock_alloc_buffer([each * chains], plan.c.numerics.accumulate, scope="local")
        tiles = [
            (member * plan.vectors + vector, member, first + vector * LANES)
            for member in range(s.group)
            for vector in range(plan.vectors)
        ]
        zero = plan.engine.zero(LANES)
        if s.col_tiles > 1:
            with T.serial(0, tirx.const(s.tile_rows, "int64")) as row:
                for vector in range(plan.vectors):
                    at = [feature + row, ramp(first + vector * LANES)]
                    T.buffer_store(lanes, zero, at)
        with T.grid(*int64((s.col_tiles, s.tile_groups))) as (across, nth):
            slot = (row_tile * s.col_tiles + across) * s.tile_groups + nth
            group = tirx.Cast("int64", stored[3][slot]) if s.tile_groups > 1 else 0
            home = feature + group * s.group
            for i, member, n in tiles:
                begin = lanes[home + member, ramp(n)] if s.col_tiles > 1 else zero
                T.buffer_store(sums, begin, [ramp(i * LANES)])
            begin = tirx.Cast("int64", starts[slot])
            count = tirx.Cast("int64", starts[slot + 1]) - begin
            buffers, place = (packed, *stored[:2], sums), (row_tile, across)
            if chains > 1:
                _chained(plan, buffers, tiles, place, (begin, count, chains))
                begin, count = begin + count // chains * chains, count % chains
            with T.serial(0, count) as step:
                _entry(plan, buffers, tiles, (*place, begin + step))
            for i, member, n in tiles:
                T.buffer_store(lanes, sums[ramp(i * LANES)], [home + member, ramp(n)])


def _chained(
    plan: Plan,
    buffers: tuple[Any, ...],
    tiles: list[Any],
    place: tuple[Any, Any],
    entries: tuple[Any, Any, int],
) -> None:
    """Emit the multiply-adds of whole turns of entries, one in each of ``chains`` sums."""
    (begin, count, chains), (*_, sums) = entries, buffers
    each = len(tiles)
    for i in range(each, each * chains):
        T.buffer_store(sums, plan.engine.zero(LANES), [ramp(i * LANES)])
    with T.serial(0, count // chains) as turn:
        for chain in range(chains):
            own = [(i + each * chain, member, n) for i, member, n in tiles]
            _entry(plan, buffers, own, (*place, begin + turn * chains + chain))
    for i in range(each, each * chains):
        total = sums[ramp(i % each * LANES)] + sums[ramp(i * LANES)]
        T.buffer_store(sums, total, [ramp(i % each * LANES)])


def _entry(plan: Plan, buffers: tuple[Any, ...], tiles: list[Any], at: tuple[Any, ...]) -> None:
    """Emit the multiply-adds of one entry."""
    packed, values, places, sums = buffers
    row_tile, across, entry = at
    place = tirx.Cast("int64", places[entry])
    for k in range(plan.s.run):
        for i, member, n in tiles:
            weights = plan.engine.weights(tirx.Broadcast(values[entry, k, member], LANES))
            where = ramp(i * LANES)
            activations = packed[tuple(plan.place(row_tile, across, place, k, n))]
            total = plan.engine.multiply(sums[where], weights, activations)
            T.buffer_store(sums, total, [where])
