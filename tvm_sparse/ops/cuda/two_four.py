"""2:4 weights on sparse tensor cores: ``mma.sp`` multiplies what is stored, nothing is decoded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import tirx as T

from tvm_sparse.formats.two_four import EDGE, HELD, KEEP, LANES, QUAD, TwoFourFormat
from tvm_sparse.ops.cuda import ptx
from tvm_sparse.ops.cuda.multiply import EDGE as ROWS
from tvm_sparse.ops.cuda.multiply import Extents, Instruction
from tvm_sparse.ops.cuda.staging import pointer
from tvm_sparse.ops.cuda.tile import ThreadBlockTile
from tvm_sparse.ops.cuda.weights import PackedOperand
from tvm_sparse.ops.marks import flat, int64

WORD = 2
"""Elements of 16 bits that a lane's word of metadata takes."""

SUMS = ROWS * EDGE // LANES
"""Sums of a product of 16 rows and 32 features that one lane holds."""


@dataclass(frozen=True)
class Staged:
    """Values and metadata of 2:4 weights in shared memory, tile by tile."""

    values: Any
    metadata: Any


@dataclass
class TwoFourOperand(PackedOperand):
    """2:4 weights; ``format.lanes`` and ``.step`` are ``tile.features`` and ``tile.columns``."""

    format: TwoFourFormat
    tile: ThreadBlockTile
    _packed: tuple[Any, Any] = field(init=False, default=(None, None))

    @property
    def sizes(self) -> tuple[int, int]:
        """Of the pieces of a tile."""
        return self.format.pieces * LANES * HELD, self.format.pieces * LANES

    def right(self, dtype: str) -> Staged:
        """Emit ``stage_v`` and ``stage_i``, plain copies."""
        del dtype
        return Staged(*self.stage_packed())


class SparseTensorCore:
    """``mma.sp.m16n8k32`` on fp16 or bf16 with fp32 sums, four times for 32 features x 16 rows.

    Weights are the instruction's left operand, since only that one may be sparse.
    """

    def multiply(self, xs: tirx.Buffer, ws: Staged, tile: Extents, result: str) -> Any:
        """Emit the product of fragments."""
        held = (ROWS * EDGE // LANES, HELD + WORD, SUMS)
        load, emit = ptx.load_wide, ptx.multiply_kept
        mma = Instruction("tile_two_four", EDGE, EDGE, held, load, emit, _place)
        return mma.multiply(xs, lambda b: _load_pieces(ws, b, tile[2] // EDGE), tile, result)


def _load_pieces(ws: Staged, b: Any, across: int) -> None:
    """Emit the block that takes a lane's values and metadata of a piece to registers."""
    sizes, held = (LANES * HELD, LANES), int(b.shape[4])
    with T.grid(*b.shape[:3], *int64((LANES, 1))) as axes, T.sblock("load_b"):
        block, tile, k, lane, one = T.axis.remap("SSSSS", axes)
        step, piece = k // across, tile * across + k % across
        regions = [
            buffer[block, step, piece * size : piece * size + size]
            for buffer, size in zip((ws.values, ws.metadata), sizes, strict=True)
        ]
        T.reads(*regions)
        T.writes(b[block, tile, k, lane, one * held : one * held + held])
        values, metadata = (
            pointer(region, size, "r") for region, size in zip(regions, sizes, strict=True)
        )
        first, last = (b[block, tile, k, lane, one * held + i] for i in (0, held - 1))
        ends = (T.address_of(first), T.address_of(last))
        T.evaluate(ptx.load_kept(ends, values, metadata, lane))


def _place(lane: Any, high: Any, low: Any) -> tuple[Any, Any]:
    """Return where register ``2 high + low`` of four ``mma.sp.m16n8k32`` lies: row and feature.

    The instruction's rows are features here, and its columns rows.
    """
    row = high // 2 % 2 * 8 + lane % 4 * 2 + low
    return row, high // 4 * 16 + high % 2 * 8 + lane // 4


def unpacked(format: TwoFourFormat, dtype: str) -> tirx.PrimFunc:
    """Return ``f(V, I, W)``, which writes the matrix ``W`` (rows, columns) that is stored."""
    extents = (format.lanes // EDGE, format.step // EDGE)
    tiles = (format.row_blocks, format.steps)
    sizes = (format.pieces * LANES * HELD, format.pieces * LANES)
    v, i = (
        te.placeholder(int64((*tiles, size)), kind, name)
        for size, kind, name in zip(sizes, (dtype, "int32"), "VI", strict=True)
    )

    def element(row: Any, column: Any) -> Any:
        tile = (row // format.lanes, column // format.step)
        piece = (row % format.lanes // EDGE, column % format.step // EDGE)
        half, high, g = row % EDGE // 16, row % 16 // 8, row % 8
        chunk, quad, place = column % EDGE // 16, column % 16 // QUAD, column % QUAD
        word = i[(*tile, flat([*piece, g, half, chunk], (*extents, 8, 2, 2)))]
        columns = word >> (high * 16 + quad * QUAD).astype("int32")
        lane = (*extents, 2, 8, 4, 2, 2, KEEP)
        value = tirx.const(0, dtype)
        for low in range(KEEP):
            stored = v[(*tile, flat([*piece, half, g, quad, chunk, high, low], lane))]
            found = (columns >> 2 * low & 3) == place.astype("int32")
            value = tirx.Select(found, stored, value)
        return value

    w = te.compute(int64((format.rows, format.cols)), element, name="W")
    return te.create_prim_func([v, i, w]).without_attr("global_symbol")
