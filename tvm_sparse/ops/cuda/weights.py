"""Right operands of tiled contractions, in general: how a tile of weights gets on chip.

Those of each format stand in ``dense_weights``, ``balanced_weights``, ``block_weights``,
``joint_weights`` and ``two_four``.
"""

from __future__ import annotations

from typing import Any, Protocol

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.ops.cuda.operands import Right
from tvm_sparse.ops.cuda.staging import SHARED, copied
from tvm_sparse.ops.cuda.tile import ThreadBlockTile
from tvm_sparse.ops.marks import int64


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


class InParts:
    """Weights whose reduction is cut into ``tile.parts`` of :attr:`columns` steps each."""

    tile: ThreadBlockTile

    @property
    def down(self) -> int:
        """Blocks of ``tile.features`` rows."""
        raise NotImplementedError

    @property
    def columns(self) -> int:
        """Reduction length of a part."""
        raise NotImplementedError

    @property
    def blocks(self) -> int:
        """Blocks of ``tile.features`` rows, for each part."""
        return self.down * self.tile.parts

    def whole(self, block: Any, k: Any, length: int | None = None) -> tuple[Any, Any]:
        """Return the block, and the step ``k`` of a part of ``length`` in the whole reduction."""
        if self.tile.parts == 1:
            return block, k
        return block % self.down, block // self.down * (length or self.columns) + k


class AllColumns(InParts):
    """Weights that leave no column out: reduction step ``k`` is column ``k``."""

    @property
    def run(self) -> int:
        """Nothing is left out."""
        return self.columns

    def column(self, block: Any, k: Any) -> Any:
        """Return ``k``, of the whole reduction."""
        return self.whole(block, k)[1]

    def looked_up(self, block: Any, k: Any) -> list[Any]:
        """Return nothing."""
        del block, k
        return []

    def counts(self, block: Any, k: Any, vector: int) -> list[Any]:
        """Return no condition: columns past the end are outside of the input."""
        del block, k, vector
        return []


class PackedOperand(AllColumns):
    """Values and indices of equally many columns a tile, which are copied as they are stored."""

    format: PackedTiles
    _packed: tuple[Any, Any]

    @property
    def sizes(self) -> tuple[int, int]:
        """Values, and words of indices, of a tile."""
        raise NotImplementedError

    @property
    def down(self) -> int:
        """Blocks of ``tile.features`` rows."""
        return self.format.row_blocks

    @property
    def steps(self) -> int:
        """Tiles across, of a part: all parts have equally many."""
        return whole_steps(self.format.steps, self.tile.parts)

    @property
    def columns(self) -> int:
        """All columns of a part, up to a whole step."""
        return self.steps * self.format.step

    def declare(self, dtype: str) -> None:
        """Emit the parameters for values and for indices."""
        tiles = (self.format.row_blocks, self.format.steps)
        values, indices = (int64((*tiles, size)) for size in self.sizes)
        self._packed = (
            T.arg("V", T.Buffer(values, dtype)),
            T.arg("I", T.Buffer(indices, "int32")),
        )

    def stage_packed(self) -> tuple[Any, Any]:
        """Emit ``stage_v`` and ``stage_i``, plain copies, and return what they fill."""
        extents = (self.blocks, self.steps)

        def place(block: Any, step: Any) -> tuple[Any, Any]:
            return self.whole(block, step, self.steps)

        names = ("stage_v", "stage_i")
        values, indices = (
            copied(name, source, extents, place)
            for name, source in zip(names, self._packed, strict=True)
        )
        return values, indices


def whole_steps(steps: int, parts: int) -> int:
    """Return the steps of each of ``parts``, which are stored and must be equally many."""
    if steps % parts:
        found = f"{steps} steps in {parts} parts"
        raise UnsupportedError("packed weights", found, "parts that divide the steps")
    return steps // parts


class DenseTiles:
    """Weights whose tile is dense once it is staged."""

    tile: ThreadBlockTile

    @property
    def blocks(self) -> int:
        """Blocks of ``tile.features`` rows, for each part of the reduction."""
        raise NotImplementedError

    @property
    def columns(self) -> int:
        """Reduction length of a block."""
        raise NotImplementedError

    @property
    def features_first(self) -> bool:
        """Whether a staged tile is ``[block, feature, k]``, else ``[block, k, feature]``."""
        raise NotImplementedError

    @property
    def apart(self) -> int:
        """Groups of rows of a tile: feature ``f`` is row ``f // apart`` of group ``f % apart``."""
        return 1

    @property
    def each(self) -> Any:
        """Blocks of an item, if weights are those of a batch."""
        return None

    def multiplied(self, block: Any, k: Any) -> Any:
        """Return whether a step is multiplied, the same for all of its columns; None: it is."""
        del block, k
        return None

    def counted(self, block: Any) -> list[Any]:
        """Return what :meth:`multiplied` reads."""
        del block
        return []

    def stage(self, ws: tirx.Buffer) -> None:
        """Emit the blocks that fill the tile ``ws``."""
        raise NotImplementedError

    def right(self, dtype: str) -> Right:
        """Emit the blocks that stage a tile, and return it."""
        sides: tuple[int, ...] = (self.columns, self.tile.features)
        sides = sides[::-1] if self.features_first else sides
        if self.apart > 1:
            sides = (self.apart, sides[0] // self.apart, sides[1])
        ws = T.sblock_alloc_buffer(int64((self.blocks, *sides)), dtype, scope=SHARED)
        self.stage(ws)
        return Right(ws, self.features_first, self.apart, self, self.each)
