"""Format of matrices with zeros anywhere: only nonzero runs, for groups of rows, tile by tile."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tvm_sparse.base.numerics import FLOAT32
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.arrays import CHUNK_BYTES, finite_matrix, index_dtype, itemsize
from tvm_sparse.formats.bank_slots import one_by_one, side_by_side
from tvm_sparse.machine.vector import LANES

WHERE = "compressed rows"


@dataclass(frozen=True)
class CompressedRowsFormat:
    """Compressed sparse rows, in which ``group`` rows share runs of ``run`` columns.

    ``group = run = 1`` stores any zeros; ``group`` x ``run`` blocks are block compressed sparse
    rows. The matrix is cut into tiles of ``tile_rows`` x ``tile_cols``; entries of a tile follow
    one another, row tiles outermost. In a tile, groups are sorted by the number of their entries:
    equal loops follow one another, which branch predictors learn.

    Arrays of :meth:`encode`:

    * ``values`` ``(entries, run / depth, group * depth)``, the matrix's dtype: all values of a run
      of columns; ``depth`` columns of a row lie side by side.
    * ``columns`` ``(entries,)``, uint8 to int32: first column of each run within its tile.
    * ``starts`` ``(slots + 1,)`` int32: first entry of each slot; a slot is one group in one tile.
    * ``groups`` ``(slots,)``, uint8 to int32: the group of a slot within its row tile. Left out if
      a row tile is one group.

    ``complete`` formats store zeros, too: all runs. ``longest`` is the number of entries of the
    longest slot. A matrix of zeros stores one entry
    that no slot refers to.
    """

    rows: int
    cols: int
    entries: int
    longest: int
    group: int = 1
    run: int = 1
    tile_rows: int = LANES
    tile_cols: int = 256
    depth: int = 1
    complete: bool = False

    def __post_init__(self) -> None:
        """Refuse extents that cannot be stored."""
        if self.run % self.depth:
            raise UnsupportedError(WHERE, f"run = {self.run}", f"a multiple of {self.depth}")
        if self.cols % self.run or self.tile_cols % self.run or self.tile_rows % self.group:
            raise UnsupportedError(
                WHERE,
                f"runs of {self.run} columns and groups of {self.group} rows in a matrix of"
                f" {self.cols} columns, tiles of {self.tile_rows}x{self.tile_cols}",
                "runs that divide both column counts, groups that divide a tile",
                "keep this layer dense",
            )

    @property
    def row_tiles(self) -> int:
        """Tiles along the rows; the last one may reach past the last row."""
        return -(-self.rows // self.tile_rows)

    @property
    def col_tiles(self) -> int:
        """Tiles along the columns; the last one may reach past the last column."""
        return -(-self.cols // self.tile_cols)

    @property
    def tile_groups(self) -> int:
        """Groups of a row tile."""
        return self.tile_rows // self.group

    @property
    def slots(self) -> int:
        """Groups of all tiles."""
        return self.row_tiles * self.col_tiles * self.tile_groups

    @property
    def column_dtype(self) -> np.dtype:
        """Type of ``columns``."""
        return index_dtype(min(self.tile_cols, self.cols))

    @property
    def group_dtype(self) -> np.dtype:
        """Type of ``groups``."""
        return index_dtype(self.tile_groups)

    def nbytes(self, dtype: npt.DTypeLike = FLOAT32.weight) -> int:
        """Return the bytes of all arrays for values of ``dtype``."""
        entry = self.group * self.run * itemsize(dtype) + self.column_dtype.itemsize
        order = self.group_dtype.itemsize if self.tile_groups > 1 else 0
        return self.entries * entry + 4 * (self.slots + 1) + self.slots * order

    @classmethod
    def of(
        cls,
        matrix: np.ndarray,
        *,
        group: int = 1,
        run: int = 1,
        tile_rows: int = LANES,
        tile_cols: int = 256,
        depth: int = 1,
    ) -> CompressedRowsFormat:
        """Return the format that stores exactly the nonzero runs of ``matrix``."""
        rows, cols = matrix.shape
        probe = cls(rows, cols, 1, 1, group, run, tile_rows, tile_cols, depth)
        counts = probe._used(matrix).sum(-1)
        entries, longest = max(1, int(counts.sum())), max(1, int(counts.max(initial=0)))
        return replace(probe, entries=entries, longest=longest)

    @classmethod
    def whole(cls, rows: int, cols: int, tile_rows: int) -> CompressedRowsFormat:
        """Return the format of all values of any matrix of these extents, in tiles of rows."""
        return cls(rows, cols, rows * cols, cols, 1, 1, tile_rows, cols, complete=True)

    def encode(self, matrix: np.ndarray) -> dict[str, np.ndarray]:
        """Return the arrays of ``matrix`` ``(rows, cols)``; raise if it has other nonzero runs."""
        matrix = finite_matrix(matrix, (self.rows, self.cols), WHERE)
        used = self._used(matrix)
        counts = used.sum(-1)
        total, longest = int(counts.sum()), int(counts.max(initial=0))
        if max(1, total) != self.entries or longest > self.longest:
            raise UnsupportedError(
                WHERE,
                f"{total} nonzero runs, at most {longest} in a slot",
                f"{self.entries}, at most {self.longest}",
                "use CompressedRowsFormat.of to size the format",
            )
        order = np.argsort(counts, axis=-1, kind="stable")
        values = np.zeros((self.entries, self.run, self.group), matrix.dtype)
        columns = np.zeros(self.entries, self.column_dtype)
        at = 0
        for tiles in self._parts(matrix):
            found = self._entries(matrix, tiles, used[tiles], order[tiles])
            for array, part in zip((values, columns), found, strict=True):
                array[at : at + len(part)] = part
            at += len(found[1])
        ends = np.cumsum(np.take_along_axis(counts, order, axis=-1))
        arrays = {
            "values": side_by_side(values, self.depth),
            "columns": columns,
            "starts": np.append(0, ends).astype(np.int32),
        }
        if self.tile_groups > 1:
            arrays["groups"] = order.reshape(-1).astype(self.group_dtype)
        return arrays

    def decode(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """Return the matrix ``(rows, cols)`` of ``arrays``; the exact inverse of :meth:`encode`."""
        values, starts = one_by_one(arrays["values"], self.depth), arrays["starts"]
        slot = np.repeat(np.arange(self.slots), np.diff(starts))
        tile, across = np.divmod(slot // self.tile_groups, self.col_tiles)
        group = arrays["groups"][slot] if self.tile_groups > 1 else 0
        column = (across * self.tile_cols + arrays["columns"][: len(slot)]) // self.run
        shape = (self.row_tiles * self.tile_groups, self.group, self.cols // self.run, self.run)
        matrix = np.zeros(shape, values.dtype)
        matrix[tile * self.tile_groups + group, :, column] = values[: len(slot)].transpose(0, 2, 1)
        return matrix.reshape(-1, self.cols)[: self.rows]

    def _entries(
        self, matrix: np.ndarray, tiles: slice, used: np.ndarray, order: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return values and columns of the entries of some row tiles."""
        used = np.take_along_axis(used, order[..., None], axis=2)
        tile, across, slot, column = np.nonzero(used)
        owner = tile * self.tile_groups + order[tile, across, slot]
        rows = matrix[tiles.start * self.tile_rows : tiles.stop * self.tile_rows]
        missing = len(used) * self.tile_rows - len(rows)
        rows = np.pad(rows, ((0, missing), (0, 0))) if missing else rows
        runs = rows.reshape(-1, self.group, self.cols // self.run, self.run)
        start = across * (self.tile_cols // self.run) + column
        return runs[owner, :, start].transpose(0, 2, 1), column * self.run

    def _used(self, matrix: np.ndarray) -> np.ndarray:
        """Return ``(row tiles, column tiles, groups, runs)``: which runs hold a nonzero."""
        runs = self.tile_cols // self.run
        used = np.empty((self.row_tiles, self.col_tiles, self.tile_groups, runs), np.bool_)
        for tiles in self._parts(matrix):
            rows = matrix[tiles.start * self.tile_rows : tiles.stop * self.tile_rows]
            some = used[tiles]
            shape = (len(some), self.tile_groups, self.group, self.col_tiles, runs, self.run)
            padded = np.zeros((len(some) * self.tile_rows, math.prod(shape[3:])), np.bool_)
            inside = padded[: len(rows), : self.cols]
            np.logical_or(rows != 0, self.complete, out=inside)
            some[:] = np.any(padded.reshape(shape), axis=(2, 5)).transpose(0, 2, 1, 3)
        return used

    def _parts(self, matrix: np.ndarray) -> Iterator[slice]:
        """Yield the row tiles, as many at once as make :data:`CHUNK_BYTES` of ``matrix``."""
        tiles = max(1, CHUNK_BYTES * self.row_tiles // max(1, matrix.nbytes))
        for first in range(0, self.row_tiles, tiles):
            yield slice(first, first + tiles)
