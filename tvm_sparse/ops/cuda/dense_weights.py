"""Right operands of tiled contractions for dense weights: plain copies."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from tvm_sparse.formats.dense import DenseFormat
from tvm_sparse.ops.cuda.staging import copy
from tvm_sparse.ops.cuda.tile import VECTOR_BITS, ThreadBlockTile, round_up
from tvm_sparse.ops.cuda.weights import AllColumns, DenseTiles
from tvm_sparse.ops.marks import VECTOR, int64


@dataclass
class DenseOperand(AllColumns, DenseTiles):
    """Dense weights, ``format.lanes`` rows side by side: those of one tile, or of several."""

    format: DenseFormat
    tile: ThreadBlockTile
    _values: Any = field(init=False, default=None)

    @property
    def down(self) -> int:
        """Blocks of ``tile.features`` rows."""
        return self.format.row_blocks * self._tiles

    @property
    def _tiles(self) -> int:
        """Tiles of rows that lie side by side."""
        return self.format.lanes // self.tile.features

    @property
    def features_first(self) -> bool:
        """A row of the tile is a column of the weight matrix, as it is stored."""
        return False

    @property
    def columns(self) -> int:
        """All columns of a part, up to a whole step."""
        parts = self.tile.parts
        return int(round_up(self.format.cols, self.tile.columns * parts)) // parts

    def declare(self, dtype: str) -> None:
        """Emit the parameter ``values``."""
        s = self.format
        self._values = T.arg("V", T.Buffer(int64((s.row_blocks, s.cols, s.lanes)), dtype))

    def stage(self, ws: tirx.Buffer) -> None:
        """Emit a plain copy."""
        with T.grid(*ws.shape) as axes, T.sblock("stage_w"):
            block, k, feature = T.axis.remap("SSS", axes)
            down, column = self.whole(block, k)
            value = self._values[self._place(down, column, feature)]
            T.reads(value)
            T.writes(ws[block, k, feature])
            T.sblock_attr({VECTOR: self.tile.features})
            if self.columns * self.tile.parts != self.format.cols:
                zero = tirx.const(0, str(ws.dtype))
                value = tirx.if_then_else(column < self.format.cols, value, zero)
            T.buffer_store(ws, value, [block, k, feature])

    def _place(self, block: Any, column: Any, feature: Any) -> tuple[Any, Any, Any]:
        """Return where a feature of a block of rows is stored."""
        if self._tiles == 1:
            return block, column, feature
        side = block % self._tiles * self.tile.features
        return block // self._tiles, column, side + feature


@dataclass
class DenseRows(DenseOperand):
    """Dense weights as they are: one row after another, each of all columns (``lanes`` is 1)."""

    @property
    def down(self) -> int:
        """Blocks of ``tile.features`` rows."""
        return math.ceil(self.format.rows / self.tile.features)

    @property
    def features_first(self) -> bool:
        """A row of the tile is a row of the weight matrix, as it is stored."""
        return True

    def stage(self, ws: tirx.Buffer) -> None:
        """Emit a copy; rows and columns past the ends are zero."""
        rows, columns = self.format.rows, self.format.cols
        with T.grid(*ws.shape) as axes, T.sblock("stage_w"):
            block, feature, k = T.axis.remap("SSS", axes)
            down, column = self.whole(block, k)
            row = down * self.tile.features + feature
            vector = math.gcd(columns, VECTOR_BITS // int(ws.dtype.bits))
            inside = [row < rows, column // vector < columns // vector]
            copy(self._values[row, column, 0], ws, (block, feature, k), inside, vector)
