"""Output rows as lanes: the input transposed tile by tile, all taps of a convolution below."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from tvm_sparse.engine.cpu import Engine
from tvm_sparse.machine.vector import SUM_BITS, VECTOR_BITS
from tvm_sparse.ops.contraction import Contraction
from tvm_sparse.ops.emit import unravel, whole
from tvm_sparse.ops.marks import flat, int64
from tvm_sparse.ops.transpose import LANES, transpose_narrow, transpose_tile

VECTORS = "ts.vectors"
"""Block annotation: vectors of output rows of a tile."""

QUAD_BITS = 128
"""Shuffles within quads of 32 bits are cheap on every x86."""

PACK = "pack"
"""Name of the block that transposes the input."""


@dataclass(frozen=True)
class PackedRows:
    """The output rows (pixels) of a contraction, numbered, :attr:`span` of them a tile.

    ``width`` counts them, padded to whole tiles of ``vectors`` vectors.
    """

    c: Contraction
    engine: Engine
    vectors: int

    @property
    def rows(self) -> Any:
        """Output rows."""
        return math.prod(self.c.lead)

    @property
    def span(self) -> int:
        """Rows of a tile."""
        return LANES * self.vectors

    @property
    def tiles(self) -> Any:
        """Tiles of rows."""
        rows = self.rows
        if isinstance(rows, int):
            return -(-rows // self.span)
        return tirx.ceildiv(rows, self.span)

    @property
    def width(self) -> Any:
        """Rows of all tiles."""
        return self.tiles * self.span

    @property
    def packed_rows(self) -> int:
        """Columns of all taps, those of each padded to whole tiles."""
        return math.prod(self.c.taps) * self._tap_tiles * self._square[1]

    @property
    def _square(self) -> tuple[int, int]:
        """Rows and columns that are transposed at once.

        Of narrow numbers they are a register of columns: rows are often far apart, and each line of
        the cache is then read once.
        """
        bits = self.c.numerics.bits
        if bits == SUM_BITS:
            return LANES, LANES
        wide = VECTOR_BITS // bits
        return QUAD_BITS // bits, wide if self.c.columns >= wide else LANES

    @property
    def _tap_tiles(self) -> int:
        return -(-self.c.columns // self._square[1])

    def row(self, lead: list[Any]) -> Any:
        """Return the number of an output row."""
        return flat(lead, self.c.lead)

    def alloc(self, dtype: str) -> Any:
        """Emit the buffer of the transposed input."""
        return T.sblock_alloc_buffer(int64((self.packed_rows, self.width)), dtype)

    def pack(self, x: tirx.Buffer, packed: tirx.Buffer) -> None:
        """Emit the block that transposes a few rows of the input by a few columns of one tap."""
        c, (high, wide), viewed = self.c, self._square, self.engine.view(x)
        with T.grid(*int64((self.width // high, self.packed_rows // wide))) as axes:
            with T.sblock(PACK):
                row, tile = T.axis.remap("SS", axes)
                first, tap = row * high, tile // self._tap_tiles
                column = tile % self._tap_tiles * wide
                if c.columns % wide:
                    column = tirx.min(column, tirx.const(c.columns - wide, "int64"))
                T.reads(whole(x))
                # The last tile of a tap begins earlier, where its own columns are; what comes next
                # reads all rows of `packed`, so that the declared region need not say so.
                T.writes(packed[tile * wide : tile * wide + wide, first : first + high])
                taps = unravel(tap, c.taps)
                rows = []
                for lane in range(high):
                    n = first + lane
                    if self._ragged():
                        n = tirx.min(n, self.rows - 1)
                    index = c.input_index(unravel(n, c.lead), taps)
                    rows.append(viewed[(*index, tirx.Ramp(column, 1, wide))])
                full = c.numerics.bits == SUM_BITS
                turned = transpose_tile(rows) if full else transpose_narrow(rows, wide)
                for i, vector in enumerate(turned):
                    at = [tap * c.columns + column + i, tirx.Ramp(first, 1, high)]
                    T.buffer_store(packed, vector, at)

    def store(self, results: tirx.Buffer, offsets: Any, y: tirx.Buffer) -> None:
        """Emit the block that copies results to the output, plus ``offsets`` if there are any.

        Element-wise steps fuse behind it.
        """
        c = self.c
        with T.grid(*int64(c.output_shape)) as axes, T.sblock("store"):
            *lead, out = T.axis.remap("S" * len(c.output_shape), axes)
            parts = [results[self.row(lead), out]]
            parts += [] if offsets is None else [offsets[out]]
            T.reads(*parts)
            T.writes(y[(*lead, out)])
            total = sum(parts[1:], parts[0])
            narrow = c.out_dtype != c.numerics.accumulate
            T.buffer_store(y, tirx.Cast(c.out_dtype, total) if narrow else total, [*lead, out])

    def _ragged(self) -> bool:
        """Whether the last tile may have lanes without an output row."""
        return not isinstance(self.rows, int) or self.rows % self.span != 0


def ramp(first: Any) -> Any:
    """Return the indices of a vector."""
    return tirx.Ramp(first, 1, LANES)
