"""Linear layer and convolution on compressed rows: lanes of output pixels share each weight."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T
from tvm.target import Target

from tvm_sparse.engine.cpu import Engine
from tvm_sparse.engine.registry import single_engine_of
from tvm_sparse.formats.compressed_rows import CompressedRowsFormat
from tvm_sparse.ops.contraction import Contraction
from tvm_sparse.ops.emit import whole
from tvm_sparse.ops.marks import OPERATOR, OUT_FUSABLE, int64
from tvm_sparse.ops.packed_rows import VECTORS, PackedRows, ramp
from tvm_sparse.ops.transpose import LANES, transpose_tile


def compressed_rows(
    contraction: Contraction, storage: CompressedRowsFormat, target: Target, vectors: int = 4
) -> tirx.PrimFunc:
    """Return ``f(X, values, columns, starts[, groups], Y)``.

    All output rows (pixels) of the contraction are numbered ``n``; 16 of them are the lanes of a
    vector and ``vectors`` vectors are computed together, so each weight is loaded once for
    ``16 * vectors`` multiply-adds. The operands of such a tile are transposed first (``pack``:
    ``(column, n)``, all taps of a convolution one after the other), the results last (``turn``).
    Between them, ``contract`` walks the slots of the storage with ``group * vectors`` accumulators
    in registers. (Lanes along the batch: Elsen et al., Fast Sparse ConvNets, CVPR 2020, section 3.)
    """
    c = contraction
    engine = single_engine_of(c.numerics, target)
    plan = PackedRows(c, engine, vectors)
    features = storage.row_tiles * storage.tile_rows
    with IRBuilder() as builder, T.prim_func(is_private=True, s_tir=True):
        T.func_name("main")
        T.func_attr({"op_pattern": OUT_FUSABLE, "tirx.noalias": True})
        x = T.arg("X", T.Buffer(int64(c.input_shape), c.dtype))
        stored = _storage(storage, engine)
        y = T.arg("Y", T.Buffer(int64(c.output_shape), c.out_dtype))
        with T.sblock("root"):
            packed, sums = plan.alloc(c.dtype), c.numerics.accumulate
            lanes = T.sblock_alloc_buffer(int64((features, plan.width)), sums)
            acc = T.sblock_alloc_buffer(int64((plan.width, features)), sums)
            plan.pack(x, packed)
            _contract(plan, storage, packed, stored, lanes)
            _turn(plan, features, lanes, acc)
            plan.store(acc, None, y)
    return builder.get()


def _storage(s: CompressedRowsFormat, engine: Engine) -> list[Any]:
    """Declare the parameters of ``storage.encode``'s arrays."""
    values = T.arg("V", T.Buffer(int64((s.entries, s.run, s.group)), engine.held))
    columns = T.arg("C", T.Buffer(int64((s.entries,)), str(s.column_dtype)))
    starts = T.arg("S", T.Buffer(int64((s.slots + 1,)), "int32"))
    if s.tile_groups == 1:
        return [values, columns, starts]
    return [values, columns, starts, T.arg("G", T.Buffer(int64((s.slots,)), str(s.group_dtype)))]


def _contract(
    plan: PackedRows,
    s: CompressedRowsFormat,
    packed: tirx.Buffer,
    stored: list[Any],
    lanes: Any,
) -> None:
    """Emit the block that computes one row tile of the weight for one tile of output rows."""
    values, columns, starts, *groups = stored
    with T.grid(*int64((plan.tiles, s.row_tiles))) as axes, T.sblock("contract"):
        tile, row_tile = T.axis.remap("SS", axes)
        first, feature = tile * plan.span, row_tile * s.tile_rows
        T.reads(packed[0 : plan.packed_rows, first : first + plan.span], *map(whole, stored))
        T.writes(lanes[feature : feature + s.tile_rows, first : first + plan.span])
        T.sblock_attr({OPERATOR: "compressed_rows", VECTORS: plan.vectors})
        sums = T.sblock_alloc_buffer(
            [s.group * plan.span], plan.c.numerics.accumulate, scope="local"
        )
        tiles = [
            (member * plan.vectors + vector, member, first + vector * LANES)
            for member in range(s.group)
            for vector in range(plan.vectors)
        ]
        engine, zero = plan.engine, plan.engine.zero(LANES)
        if s.col_tiles > 1:
            with T.serial(0, tirx.const(s.tile_rows, "int64")) as row:
                for vector in range(plan.vectors):
                    at = [feature + row, ramp(first + vector * LANES)]
                    T.buffer_store(lanes, zero, at)
        with T.grid(*int64((s.col_tiles, s.tile_groups))) as (across, turn):
            slot = (row_tile * s.col_tiles + across) * s.tile_groups + turn
            group = tirx.Cast("int64", groups[0][slot]) if groups else 0
            home = feature + group * s.group
            for i, member, n in tiles:
                begin = lanes[home + member, ramp(n)] if s.col_tiles > 1 else zero
                T.buffer_store(sums, begin, [ramp(i * LANES)])
            begin = tirx.Cast("int64", starts[slot])
            with T.serial(0, tirx.Cast("int64", starts[slot + 1]) - begin) as step:
                entry = begin + step
                column = across * s.tile_cols + tirx.Cast("int64", columns[entry])
                for k in range(s.run):
                    for i, member, n in tiles:
                        weights = engine.weights(tirx.Broadcast(values[entry, k, member], LANES))
                        at = ramp(i * LANES)
                        total = engine.multiply(sums[at], weights, packed[column + k, ramp(n)])
                        T.buffer_store(sums, total, [at])
            for i, member, n in tiles:
                T.buffer_store(lanes, sums[ramp(i * LANES)], [home + member, ramp(n)])


def _turn(plan: PackedRows, features: int, lanes: Any, acc: tirx.Buffer) -> None:
    """Emit the block that transposes 16 features of 16 output rows back."""
    extents = (plan.tiles * plan.vectors, features // LANES)
    with T.grid(*int64(extents)) as axes, T.sblock("turn"):
        row, block = T.axis.remap("SS", axes)
        n, feature = row * LANES, block * LANES
        T.reads(lanes[feature : feature + LANES, n : n + LANES])
        T.writes(acc[n : n + LANES, feature : feature + LANES])
        vectors = [lanes[feature + i, ramp(n)] for i in range(LANES)]
        for i, vector in enumerate(transpose_tile(vectors)):
            T.buffer_store(acc, vector, [n + i, ramp(feature)])
