"""Output rows as lanes: the input transposed tile by tile, all taps of a convolution below."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from tvm_sparse.machine.engine.cpu import Engine
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.store import store
from tvm_sparse.ops.emit import unravel, whole
from tvm_sparse.ops.marks import flat, int64
from tvm_sparse.ops.transpose import LANES, transpose_tile, turn

VECTORS = "ts.vectors"
"""Block annotation: vectors of output rows of a tile."""

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
        return math.prod(self.c.taps) * self._tap_tiles * LANES

    @property
    def _tap_tiles(self) -> int:
        return -(-self.c.columns // LANES)

    def row(self, lead: list[Any]) -> Any:
        """Return the number of an output row."""
        return flat(lead, self.c.lead)

    def alloc(self, dtype: str) -> Any:
        """Emit the buffer of the transposed input."""
        return T.sblock_alloc_buffer(int64((self.packed_rows, self.width)), dtype)

    def pack(self, x: tirx.Buffer, packed: tirx.Buffer) -> None:
        """Emit the block that transposes a few rows of the input by a few columns of one tap."""
        c = self.c
        with T.grid(*int64((self.width // LANES, self.packed_rows // LANES))) as axes:
            with T.sblock(PACK):
                row, tile = T.axis.remap("SS", axes)
                first, tap = row * LANES, tile // self._tap_tiles
                column = self.first_column(tile % self._tap_tiles, LANES)
                T.reads(whole(x))
                # The last tile of a tap begins earlier, where its own columns are; what comes next
                # reads all rows of `packed`, so that the declared region need not say so.
                T.writes(packed[tile * LANES : tile * LANES + LANES, first : first + LANES])
                rows = self.loads(x, first, LANES, tap, tirx.Ramp(column, 1, LANES))
                for i, vector in enumerate(transpose_tile(rows)):
                    at = [tap * c.columns + column + i, ramp(first)]
                    T.buffer_store(packed, vector, at)

    def first_column(self, tile: Any, wide: int) -> Any:
        """Return where a tile of columns begins; the last one ends with its tap."""
        begin, columns = tile * wide, self.c.columns
        last = tirx.const(columns - wide, "int64")
        return tirx.min(begin, last) if columns % wide else begin

    def loads(self, x: tirx.Buffer, first: Any, high: int, tap: Any, columns: Any) -> list[Any]:
        """Return ``columns`` of what a tap meets in the ``high`` output rows from ``first`` on."""
        c, viewed, one = self.c, self.engine.view(x), math.prod(self.c.taps) == 1
        taps = [tirx.const(0, "int64") for _ in c.taps] if one else unravel(tap, c.taps)
        rows = [first + i for i in range(high)]
        if self._ragged():
            rows = [tirx.min(n, self.rows - 1) for n in rows]
            if not isinstance(self.rows, int):  # a tile has a row: now `whole_numbers` knows, too
                rows = [tirx.max(n, 0) for n in rows]
        return [viewed[(*c.input_index(unravel(n, c.lead), taps), columns)] for n in rows]

    @property
    def input_shape(self) -> tuple[Any, ...]:
        """Shape of the input."""
        return self.c.input_shape

    @property
    def output_shape(self) -> tuple[Any, ...]:
        """Shape of the output."""
        return self.c.output_shape

    def results(self, lanes: tirx.Buffer, y: tirx.Buffer) -> None:
        """Emit the blocks that transpose sums ``(features, rows)`` and store them."""
        features, width = lanes.shape
        acc = T.sblock_alloc_buffer([width, features], str(lanes.dtype))
        turn(self.tiles * self.vectors, int(features) // LANES, lanes, acc)
        self.store(acc, None, y)

    def store(self, results: tirx.Buffer, offsets: Any, y: tirx.Buffer) -> None:
        """Emit the block that copies results to the output, plus ``offsets`` if there are any."""
        store(self.c, lambda lead, out: results[self.row(lead), out], offsets, y)

    def _ragged(self) -> bool:
        """Whether the last tile may have lanes without an output row."""
        return not isinstance(self.rows, int) or self.rows % self.span != 0


def ramp(first: Any) -> Any:
    """Return the indices of a vector."""
    return tirx.Ramp(first, 1, LANES)
