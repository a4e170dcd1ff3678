"""2:4 weights on sparse tensor cores: ``mma.sp`` multiplies what is stored, nothing is decoded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tvm.script.ir_builder import tirx as T

from tvm_sparse.formats.two_four import EDGE, HELD, LANES, TwoFourFormat
from tvm_sparse.numerics import FLOAT_SUMS
from tvm_sparse.ops.cuda import ptx
from tvm_sparse.ops.cuda.multiply import EDGE as ROWS
from tvm_sparse.ops.cuda.multiply import Extents, edge, load_tile, unfold, zero_sums
from tvm_sparse.ops.cuda.staging import copied, pointer
from tvm_sparse.ops.cuda.tile import ThreadBlockTile
from tvm_sparse.ops.cuda.weights import AllColumns
from tvm_sparse.ops.marks import OPERATOR, TILE, int64

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
class TwoFourOperand(AllColumns):
    """2:4 weights; ``storage.lanes`` and ``.step`` are ``tile.features`` and ``tile.columns``."""

    storage: TwoFourFormat
    tile: ThreadBlockTile
    _packed: tuple[Any, Any] = field(init=False, default=(None, None))

    @property
    def blocks(self) -> int:
        """Blocks of ``tile.features`` rows."""
        return self.storage.row_blocks

    @property
    def columns(self) -> int:
        """All columns, up to a whole step."""
        return self.storage.steps * self.storage.step

    def declare(self, dtype: str) -> None:
        """Emit the parameters ``values`` and ``metadata``."""
        s = self.storage
        tiles = (s.row_blocks, s.steps)
        self._packed = (
            T.arg("V", T.Buffer(int64((*tiles, s.pieces * LANES * HELD)), dtype)),
            T.arg("I", T.Buffer(int64((*tiles, s.pieces * LANES)), "int32")),
        )

    def right(self, dtype: str, scope: str) -> Staged:
        """Emit ``stage_v`` and ``stage_i``, plain copies."""
        del dtype
        values, metadata = self._packed
        return Staged(copied("stage_v", values, scope), copied("stage_i", metadata, scope))


@dataclass(frozen=True)
class SparseTensorCore:
    """``mma.sp.m16n8k32`` on fp16 or bf16 with fp32 sums, written lane by lane.

    Weights are the left operand, since only that one may be sparse: a block instance is one lane of
    32 features x 16 rows x 32 columns, four instructions.
    """

    scope: str = "shared.dyn"
    intrinsics: ptx.Intrinsics = field(default_factory=ptx.Intrinsics)

    def multiply(self, xs: Any, ws: Staged, tile: Extents, result: str) -> Any:
        """Emit ``load_a``, ``load_b``, ``contract``, ``unfold``; the last one rounds."""
        blocks, rows, columns = xs.shape[0], xs.shape[1] // ROWS, xs.shape[2] // EDGE
        across, dtype = tile[1] // EDGE, str(xs.dtype)
        held = ROWS * EDGE // LANES
        a = T.sblock_alloc_buffer(int64((blocks, rows, columns, LANES, held)), dtype)
        b = T.sblock_alloc_buffer(int64((blocks, across, columns, LANES, HELD + WORD)), dtype)
        acc = T.sblock_alloc_buffer(int64((rows, blocks, across, LANES, SUMS)), FLOAT_SUMS)
        out = T.sblock_alloc_buffer([rows * ROWS, blocks * tile[1]], result)
        wide = self.intrinsics.load_wide
        load_tile("load_a", lambda at, i, k: xs[at, edge(i), edge(k, EDGE)], a, self.scope, wide)
        self._load_pieces(ws, b, tile[2] // EDGE)
        self._contract(a, b, acc, tile)
        unfold(acc, out, (ROWS, EDGE), _place)
        return out

    def _load_pieces(self, ws: Staged, b: Any, across: int) -> None:
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
                pointer(region, size, self.scope, "r")
                for region, size in zip(regions, sizes, strict=True)
            )
            first, last = (b[block, tile, k, lane, one * held + i] for i in (0, held - 1))
            ends = (T.address_of(first), T.address_of(last))
            T.evaluate(self.intrinsics.load_kept(ends, values, metadata, lane))

    def _contract(self, a: Any, b: Any, acc: Any, tile: Extents) -> None:
        """Emit the product of two fragments."""
        rows, blocks, across = acc.shape[:3]
        with T.grid(rows, blocks, across, *int64((LANES,)), a.shape[2]) as axes:
            with T.sblock("contract"):
                row, block, feature, lane, k = T.axis.remap("SSSSR", axes)
                here = (row, block, feature, lane)
                left, right = (block, row, k, lane), (block, feature, k, lane)
                T.reads(a[(*left, slice(0, a.shape[4]))], b[(*right, slice(0, b.shape[4]))])
                T.writes(acc[(*here, slice(0, SUMS))])
                T.sblock_attr({OPERATOR: "tile_two_four", TILE: list(tile)})
                zero_sums(acc, here)
                ends = (T.address_of(acc[(*here, 0)]), T.address_of(acc[(*here, SUMS - 1)]))
                operands = (T.address_of(a[(*left, 0)]), T.address_of(b[(*right, 0)]))
                T.evaluate(self.intrinsics.multiply_kept(ends, *operands, str(a.dtype)))


def _place(lane: Any, high: Any, low: Any) -> tuple[Any, Any]:
    """Return where register ``2 high + low`` of four ``mma.sp.m16n8k32`` lies: row and feature.

    The instruction's rows are features here, and its columns rows.
    """
    row = high // 2 % 2 * 8 + lane % 4 * 2 + low
    return row, high // 4 * 16 + high % 2 * 8 + lane // 4
