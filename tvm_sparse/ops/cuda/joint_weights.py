"""Right operand of tiled contractions for joint masks: kept tiles only, banks inside them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from tvm_sparse.formats.kept_tiles import KeptTilesFormat
from tvm_sparse.ops.cuda.balanced_weights import BalancedOperand
from tvm_sparse.ops.cuda.tile import ThreadBlockTile
from tvm_sparse.ops.cuda.weights import DenseTiles, InParts
from tvm_sparse.ops.marks import int64


@dataclass
class JointOperand(InParts, DenseTiles):
    """Steps of the reduction that hold a nonzero, named by a table; decoded on chip like banks.

    ``format.banks.lanes`` and ``.step`` are ``tile.features`` and ``tile.columns``.
    """

    format: KeptTilesFormat
    tile: ThreadBlockTile
    _banks: BalancedOperand = field(init=False)
    _kept: Any = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Take the banks for a matrix of their own."""
        self._banks = BalancedOperand(self.format.banks, self.tile)

    @property
    def down(self) -> int:
        """Blocks of ``tile.features`` rows."""
        return self._banks.down

    @property
    def features_first(self) -> bool:
        """As banks are."""
        return self._banks.features_first

    @property
    def apart(self) -> int:
        """As banks are."""
        return self._banks.apart

    @property
    def columns(self) -> int:
        """Columns of the kept tiles of a block, of a part of them."""
        return self._banks.columns

    @property
    def run(self) -> int:
        """Columns of a tile."""
        return self.tile.columns

    def declare(self, dtype: str) -> None:
        """Emit the parameters ``values``, ``indices`` and ``kept``."""
        self._banks.declare(dtype)
        s = self.format
        self._kept = T.arg("kept", T.Buffer(int64((s.banks.row_blocks * s.slots,)), "int32"))

    def _tile(self, block: Any, k: Any) -> Any:
        """Return the number of the tile that reduction step ``k`` lies in."""
        down, k = self.whole(block, k)
        return self._kept[down * self.format.slots + k // self.tile.columns]

    def column(self, block: Any, k: Any) -> Any:
        """Return the column of the matrix that a kept tile's column has."""
        first = tirx.Cast("int64", self._tile(block, k)) * self.tile.columns
        return first + k % self.tile.columns

    def looked_up(self, block: Any, k: Any) -> list[Any]:
        """Return the tile's number."""
        return [self._tile(block, k)]

    def counts(self, block: Any, k: Any, vector: int) -> list[Any]:
        """Return no condition: kept tiles are whole steps."""
        del block, k, vector
        return []

    def stage(self, ws: tirx.Buffer) -> None:
        """Emit what banks do."""
        self._banks.stage(ws)
