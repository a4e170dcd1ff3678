"""Right operands of tiled contractions: how a tile of weights gets on chip."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Protocol

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from tvm_sparse.formats.block import BlockFormat
from tvm_sparse.formats.dense import DenseFormat
from tvm_sparse.formats.tile_banks import TileBanksFormat
from tvm_sparse.ops.cuda import ptx
from tvm_sparse.ops.cuda.multiply import Right
from tvm_sparse.ops.cuda.staging import SHARED, copied, pointer
from tvm_sparse.ops.cuda.tile import ThreadBlockTile, round_up
from tvm_sparse.ops.marks import VECTOR, int64

EDGE = 8
"""Columns of the widest vector that activations are copied in."""


class PackedTiles(Protocol):
    """A format that stores a matrix tile by tile."""

    @property
    def row_blocks(self) -> int:
        """Tiles down."""

    @property
    def steps(self) -> int:
        """Tiles across."""

    @property
    def step(self) -> int:
        """Columns of a tile."""


class AllColumns:
    """Weights that leave no column out: reduction step ``k`` is column ``k``."""

    @property
    def columns(self) -> int:
        """All columns, up to a whole step."""
        raise NotImplementedError

    @property
    def run(self) -> int:
        """Nothing is left out."""
        return self.columns

    def column(self, block: Any, k: Any) -> Any:
        """Return ``k``."""
        del block
        return k

    def looked_up(self, block: Any, k: Any) -> list[Any]:
        """Return nothing."""
        del block, k
        return []


class PackedOperand(AllColumns):
    """Values and indices of equally many columns a tile, which are copied as they are stored."""

    storage: PackedTiles
    _packed: tuple[Any, Any]

    @property
    def sizes(self) -> tuple[int, int]:
        """Values, and words of indices, of a tile."""
        raise NotImplementedError

    @property
    def blocks(self) -> int:
        """Blocks of ``tile.features`` rows."""
        return self.storage.row_blocks

    @property
    def columns(self) -> int:
        """All columns, up to a whole step."""
        return self.storage.steps * self.storage.step

    def declare(self, dtype: str) -> None:
        """Emit the parameters for values and for indices."""
        tiles = (self.storage.row_blocks, self.storage.steps)
        values, indices = (int64((*tiles, size)) for size in self.sizes)
        self._packed = (
            T.arg("V", T.Buffer(values, dtype)),
            T.arg("I", T.Buffer(indices, "int32")),
        )

    def stage_packed(self) -> tuple[Any, Any]:
        """Emit ``stage_v`` and ``stage_i``, plain copies, and return what they fill."""
        values, indices = self._packed
        return copied("stage_v", values), copied("stage_i", indices)


class DenseTiles:
    """Weights whose tile is dense once it is staged."""

    tile: ThreadBlockTile

    @property
    def blocks(self) -> int:
        """Blocks of ``tile.features`` rows."""
        raise NotImplementedError

    @property
    def columns(self) -> int:
        """Reduction length of a block."""
        raise NotImplementedError

    @property
    def features_first(self) -> bool:
        """Whether a staged tile is ``[block, feature, k]``, else ``[block, k, feature]``."""
        raise NotImplementedError

    def stage(self, ws: tirx.Buffer) -> None:
        """Emit the blocks that fill the tile ``ws``."""
        raise NotImplementedError

    def right(self, dtype: str) -> Right:
        """Emit the blocks that stage a tile, and return it."""
        sides = (self.columns, self.tile.features)
        sides = sides[::-1] if self.features_first else sides
        ws = T.sblock_alloc_buffer(int64((self.blocks, *sides)), dtype, scope=SHARED)
        self.stage(ws)
        return Right(ws, self.features_first)


@dataclass
class DenseOperand(AllColumns, DenseTiles):
    """Dense weights, ``tile.features`` rows side by side (``storage.lanes``)."""

    storage: DenseFormat
    tile: ThreadBlockTile
    _values: Any = field(init=False, default=None)

    @property
    def blocks(self) -> int:
        """Blocks of ``tile.features`` rows."""
        return self.storage.row_blocks

    @property
    def features_first(self) -> bool:
        """A row of the tile is a column of the weight matrix, as it is stored."""
        return False

    @property
    def columns(self) -> int:
        """All columns, up to a whole step."""
        return int(round_up(self.storage.cols, self.tile.columns))

    def declare(self, dtype: str) -> None:
        """Emit the parameter ``values``."""
        s = self.storage
        self._values = T.arg("V", T.Buffer(int64((s.row_blocks, s.cols, s.lanes)), dtype))

    def stage(self, ws: tirx.Buffer) -> None:
        """Emit a plain copy."""
        with T.grid(*ws.shape) as axes, T.sblock("stage_w"):
            block, k, feature = T.axis.remap("SSS", axes)
            value = self._values[block, k, feature]
            T.reads(value)
            T.writes(ws[block, k, feature])
            T.sblock_attr({VECTOR: self.tile.features})
            if self.columns != self.storage.cols:
                zero = tirx.const(0, str(ws.dtype))
                value = tirx.if_then_else(k < self.storage.cols, value, zero)
            T.buffer_store(ws, value, [block, k, feature])


@dataclass
class BalancedOperand(PackedOperand, DenseTiles):
    """Balanced weights: values and indices are copied, then a dense tile is made of them on chip.

    ``storage.lanes`` and ``storage.step`` are ``tile.features`` and ``tile.columns``.
    """

    storage: TileBanksFormat
    tile: ThreadBlockTile
    _packed: tuple[Any, Any] = field(init=False, default=(None, None))

    @property
    def features_first(self) -> bool:
        """A bank lies in one row of the tile, so that one thread clears and fills it."""
        return True

    @property
    def sizes(self) -> tuple[int, int]:
        """Of all rows of a tile."""
        return self.storage.lanes * self.storage.slots, self.storage.lanes * self.storage.words

    def stage(self, ws: tirx.Buffer) -> None:
        """Emit ``stage_v`` and ``stage_i``, plain copies, and ``decode_w``."""
        values, indices = self.stage_packed()
        s, per_step = self.storage, self.storage.step // self.storage.bank
        grid = int64((s.row_blocks, s.lanes, s.steps * per_step))
        with T.grid(*grid) as axes, T.sblock("decode_w"):
            block, feature, place = T.axis.remap("SSS", axes)
            step, bank, column = place // per_step, place % per_step, place * s.bank
            slot, word = feature * s.slots, feature * s.words
            read = values[block, step, slot : slot + s.slots]
            packed = indices[block, step, word : word + s.words]
            written = ws[block, feature, column : column + s.bank]
            T.reads(read, packed)
            T.writes(written)
            # A call, because TVM would put a barrier between clearing a bank and filling it,
            # although one thread does both.
            T.evaluate(
                ptx.decode(
                    pointer(written, s.bank, "w"),
                    pointer(read, s.slots, "r"),
                    pointer(packed, s.words, "r"),
                    tirx.Cast("int32", bank),
                    ptx.BankDecoder(s.bank, s.keep, s.index_bits, str(ws.dtype)),
                )
            )


@dataclass
class BlockOperand(DenseTiles):
    """The kept blocks of each block row one after another; a tile is one block row high.

    ``storage`` has a single bucket, so that block rows keep their order and all store equally many;
    ``tile.features`` is its ``block_rows``.
    """

    storage: BlockFormat
    tile: ThreadBlockTile
    _values: Any = field(init=False, default=None)
    _kept: Any = field(init=False, default=None)

    @property
    def blocks(self) -> int:
        """Block rows."""
        return self.storage.down

    @property
    def slots(self) -> int:
        """Blocks that a block row stores."""
        return self.storage.buckets.parts[0].slots

    @property
    def features_first(self) -> bool:
        """A row of the tile is a column of a block, as it is stored."""
        return False

    @property
    def columns(self) -> int:
        """Columns of all stored blocks, up to a whole step."""
        return int(round_up(self.slots * self.storage.block_cols, self.tile.columns))

    @property
    def run(self) -> int:
        """Columns of a block, unless the last block is moved to end with the matrix."""
        s = self.storage
        return math.gcd(s.block_cols, s.cols)

    def declare(self, dtype: str) -> None:
        """Emit the parameters ``values``, ``columns`` and ``order`` (which changes nothing)."""
        s = self.storage
        shape = (s.down * self.slots, s.block_cols, s.block_rows)
        self._values = T.arg("V", T.Buffer(int64(shape), dtype))
        self._kept = T.arg("I", T.Buffer(int64((s.down * self.slots,)), "int32"))
        T.arg("order", T.Buffer(int64((s.down,)), "int32"))

    def _place(self, k: Any) -> tuple[Any, Any]:
        """Return which of a row's stored blocks reduction step ``k`` lies in, and its column there.

        Counted in vectors where neither the columns of a tile nor those of a block are a multiple
        of the other: TVM then sees that a vector lies in one block. Else it sees that by itself.
        """
        across, step = self.storage.block_cols, self.tile.columns
        if step % across == 0 or across % step == 0:
            return k // across, k % across
        unit = math.gcd(self.run, EDGE)
        return k // unit // (across // unit), k // unit % (across // unit) * unit + k % unit

    def _slot(self, block: Any, k: Any) -> Any:
        """Return the stored block of a reduction step; steps past the end stay at the last one."""
        slot, _ = self._place(k)
        if self.columns > self.slots * self.storage.block_cols:
            slot = tirx.min(slot, tirx.const(self.slots - 1, "int64"))
        return block * self.slots + slot

    def column(self, block: Any, k: Any) -> Any:
        """Return the column of the matrix that a stored block's column has."""
        s = self.storage
        first = tirx.Cast("int64", self._kept[self._slot(block, k)]) * s.block_cols
        if s.cols % s.block_cols:
            first = tirx.min(first, tirx.const(s.cols - s.block_cols, "int64"))
        return first + self._place(k)[1]

    def looked_up(self, block: Any, k: Any) -> list[Any]:
        """Return the block's number."""
        return [self._kept[self._slot(block, k)]]

    def stage(self, ws: tirx.Buffer) -> None:
        """Emit a plain copy; steps past the end are zero."""
        s = self.storage
        with T.grid(*ws.shape) as axes, T.sblock("stage_w"):
            block, k, feature = T.axis.remap("SSS", axes)
            value = self._values[self._slot(block, k), self._place(k)[1], feature]
            T.reads(value)
            T.writes(ws[block, k, feature])
            T.sblock_attr({VECTOR: s.block_rows})
            total = self.slots * s.block_cols
            if self.columns != total:
                value = tirx.if_then_else(k < total, value, tirx.const(0, str(ws.dtype)))
            T.buffer_store(ws, value, [block, k, feature])
