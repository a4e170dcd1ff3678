"""Output rows as lanes, of narrow numbers: the input transposed within quads of registers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from tvm_sparse.formats.squares import Squares
from tvm_sparse.ops.contractions.packed_rows import PACK, PackedRows
from tvm_sparse.ops.emit import whole
from tvm_sparse.ops.marks import int64
from tvm_sparse.ops.transpose import LANES, interleaved, transpose_quads


@dataclass(frozen=True)
class NarrowRows(PackedRows):
    """The output rows of a contraction of narrow numbers, a vector of them a tile.

    The columns that they read lie as ``squares`` say: whole registers are written, where columns
    one after the other would take four stores of a quad each.
    """

    squares: Squares

    @property
    def size(self) -> int:
        """Elements of a tile."""
        return math.prod(self.c.taps) * self.squares.count * self.squares.wide * LANES

    def alloc(self, dtype: str) -> Any:
        """Emit the buffer of the transposed input."""
        return T.sblock_alloc_buffer(int64((self.tiles, self.size)), dtype)

    def pack(self, x: tirx.Buffer, packed: tirx.Buffer) -> None:
        """Emit the block that transposes a few rows of the input by a register of columns."""
        s = self.squares
        high, wide, parts = s.high, s.wide, LANES // s.high
        registers = high * wide
        with T.grid(*int64((self.tiles, self.size // registers))) as axes, T.sblock(PACK):
            tile, piece = T.axis.remap("SS", axes)
            square, part, begin = piece // parts, piece % parts, piece * registers
            column = self.first_column(square % s.count, wide)
            T.reads(whole(x))
            T.writes(packed[tile, begin : begin + registers])
            first, columns = tile * LANES + part * high, tirx.Ramp(column, 1, wide)
            rows = self.loads(x, first, high, square // s.count, columns)
            for i, vector in enumerate(transpose_quads(rows, wide)):
                T.buffer_store(packed, vector, [tile, tirx.Ramp(begin + i * wide, 1, wide)])

    def beside(self, packed: tirx.Buffer, tile: Any, places: list[Any]) -> Any:
        """Return the columns at ``places`` of a tile, side by side for each row."""
        s = self.squares
        parts = [i * s.high * s.wide for i in range(LANES // s.high)]
        quads = [packed[tile, tirx.Ramp(p + part, 1, s.high)] for p in places for part in parts]
        return interleaved(quads, len(places))
