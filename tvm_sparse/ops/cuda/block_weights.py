"""Right operand of tiled contractions for blocks: the kept ones, named by a table."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from tvm_sparse.formats.block import BlockFormat
from tvm_sparse.ops.cuda.tile import SIGN, ThreadBlockTile, round_up
from tvm_sparse.ops.cuda.weights import DenseTiles, InParts
from tvm_sparse.ops.marks import VECTOR, int64

EDGE = 8
"""Columns of the widest vector that activations are copied in."""


@dataclass
class BlockOperand(InParts, DenseTiles):
    """The kept blocks of each block row one after another; a tile is one block row high.

    ``format`` has a single bucket, so that block rows keep their order and all store equally many;
    ``tile.features`` is its ``block_rows``. If it has counts, what a block row stores beyond its
    own is neither read nor multiplied.
    """

    format: BlockFormat
    tile: ThreadBlockTile
    _values: Any = field(init=False, default=None)
    _kept: Any = field(init=False, default=None)
    _counts: Any = field(init=False, default=None)

    @property
    def down(self) -> int:
        """Block rows."""
        return self.format.down

    @property
    def slots(self) -> int:
        """Blocks that a block row stores."""
        return self.format.buckets.parts[0].slots

    @property
    def features_first(self) -> bool:
        """A row of the tile is a column of a block, as it is stored."""
        return False

    @property
    def columns(self) -> int:
        """Columns of a part of the stored blocks, up to a whole step."""
        parts = self.tile.parts
        return int(round_up(self.stored, self.tile.columns * parts)) // parts

    @property
    def stored(self) -> int:
        """Columns of all stored blocks of a block row."""
        return self.slots * self.format.block_cols

    @property
    def padded(self) -> bool:
        """Whether there are steps past the end."""
        return self.columns * self.tile.parts > self.stored

    @property
    def run(self) -> int:
        """Columns of a block, unless the last block is moved to end with the matrix."""
        s = self.format
        return math.gcd(s.block_cols, s.cols)

    def declare(self, dtype: str) -> None:
        """Emit ``values``, ``columns``, ``order`` (which changes nothing), and the counts."""
        s = self.format
        shape = (s.down * self.slots, s.block_cols, s.block_rows)
        self._values = T.arg("V", T.Buffer(int64(shape), dtype))
        self._kept = T.arg("I", T.Buffer(int64((s.down * self.slots,)), "int32"))
        T.arg("order", T.Buffer(int64((s.down,)), "int32"))
        if s.kept:
            self._counts = T.arg("N", T.Buffer(int64((s.down,)), "int32"))

    def _place(self, k: Any) -> tuple[Any, Any]:
        """Return which of a row's stored blocks reduction step ``k`` lies in, and its column there.

        Counted in vectors where neither the columns of a tile nor those of a block are a multiple
        of the other: TVM then sees that a vector lies in one block. Else it sees that by itself.
        """
        across, step = self.format.block_cols, self.tile.columns
        if step % across == 0 or across % step == 0:
            return k // across, k % across
        unit = math.gcd(self.run, EDGE)
        return k // unit // (across // unit), k // unit % (across // unit) * unit + k % unit

    def _slot(self, block: Any, k: Any) -> Any:
        """Return the stored block of a reduction step; steps past the end stay at the last one."""
        down, k = self.whole(block, k)
        slot, _ = self._place(k)
        if self.padded:
            slot = tirx.min(slot, tirx.const(self.slots - 1, "int64"))
        return down * self.slots + slot

    def column(self, block: Any, k: Any) -> Any:
        """Return the column of the matrix that a stored block's column has.

        Counted in runs, so that TVM sees that a vector begins at a multiple of its length.
        """
        s, run = self.format, self.run
        first = tirx.Cast("int64", self._kept[self._slot(block, k)]) * (s.block_cols // run)
        if s.cols % s.block_cols:
            first = tirx.min(first, tirx.const((s.cols - s.block_cols) // run, "int64"))
        return first * run + self._place(self.whole(block, k)[1])[1]

    def looked_up(self, block: Any, k: Any) -> list[Any]:
        """Return the block's number, and how many its row has."""
        return [self._kept[self._slot(block, k)], *self.counted(block)]

    def counted(self, block: Any) -> list[Any]:
        """Return the count of a block row, if there are any."""
        down = self.whole(block, tirx.const(0, "int64"))[0]
        return [self._counts[down]] if self.format.kept else []

    def _left(self, block: Any, step: Any, unit: int = 1) -> Any:
        """Return how many steps behind ``step`` a row has, in units; none are negative.

        Of counts in 32 bits, as others would make 64 of all that is computed with steps.
        """
        if not self.format.kept:
            return tirx.const(self.stored // unit - 1, "int64") - step // unit
        (count,) = self.counted(block)
        end = count * tirx.const(self.format.block_cols // unit, "int32")
        return end - tirx.const(1, "int32") - tirx.Cast("int32", step // unit)

    def multiplied(self, block: Any, k: Any) -> Any:
        """Return whether the step of the pipeline that ``k`` lies in has a block of the row."""
        if not self.format.kept:
            return None
        step = self.whole(block, k // self.tile.columns * self.tile.columns)[1]
        return self._left(block, step) >= 0

    def counts(self, block: Any, k: Any, vector: int) -> list[Any]:
        """Return whether ``k`` is no step past the end, where a zero would meet an infinity.

        The sign bit says so: of a plain comparison TVM concludes that the table needs no bounds.
        """
        if not self.padded and not self.format.kept:
            return []
        step = self.whole(block, k)[1]
        left = self._left(block, step, vector)
        return [tirx.shift_right(left, tirx.Cast(str(left.ty.dtype), SIGN)) == 0]

    def stage(self, ws: tirx.Buffer) -> None:
        """Emit a plain copy; steps past the end are zero."""
        s = self.format
        with T.grid(*ws.shape) as axes, T.sblock("stage_w"):
            block, k, feature = T.axis.remap("SSS", axes)
            step = self.whole(block, k)[1]
            value = self._values[self._slot(block, k), self._place(step)[1], feature]
            T.reads(value, *self.counted(block))
            T.writes(ws[block, k, feature])
            T.sblock_attr({VECTOR: s.block_rows})
            if self.padded or s.kept:
                zero = tirx.const(0, str(ws.dtype))
                value = tirx.if_then_else(self._left(block, step) >= 0, value, zero)
            T.buffer_store(ws, value, [block, k, feature])
