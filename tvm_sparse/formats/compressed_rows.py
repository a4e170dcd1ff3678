"""Storage of matrices with zeros anywhere: only nonzero runs, for groups of rows, tile by tile."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.arrays import finite_matrix, index_dtype, itemsize

WHERE = "compressed rows"


@dataclass(frozen=True)
class CompressedRowsFormat:
    """Compressed sparse rows, in which ``group`` rows share runs of ``run`` columns.

    ``group = run = 1`` stores any zeros; ``group`` x ``run`` blocks are block compressed sparse
    rows. The matrix is cut into tiles of ``tile_rows`` x ``tile_cols``; entries of a tile follow
    one another, row tiles outermost. In a tile, groups are sorted by the number of their entries:
    equal loops follow one another, which branch predictors learn.

    Arrays of :meth:`encode`:

    * ``values`` ``(entries, run, group)``, the matrix's dtype: all values of a run of columns.
    * ``columns`` ``(entries,)``, uint8 to int32: first column of each run within its tile.
    * ``starts`` ``(slots + 1,)`` int32: first entry of each slot; a slot is one group in one tile.
    * ``groups`` ``(slots,)``, uint8 to int32: the group of a slot within its row tile. Left out if
      a row tile is one group.

    ``longest`` is the number of entries of the longest slot. A matrix of zeros stores one entry
    that no slot refers to.
    """

    rows: int
    cols: int
    entries: int
    longest: int
    group: int = 1
    run: int = 1
    tile_rows: int = 16
    tile_cols: int = 256

    def __post_init__(self) -> None:
        """Refuse extents that cannot be stored."""
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

    def nbytes(self, dtype: npt.DTypeLike = "float32") -> int:
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
        tile_rows: int = 16,
        tile_cols: int = 256,
    ) -> CompressedRowsFormat:
        """Return the format that stores exactly the nonzero runs of ``matrix``."""
        rows, cols = matrix.shape
        probe = cls(rows, cols, 1, 1, group, run, tile_rows, tile_cols)
        counts = probe._used(matrix).sum(-1)
        entries, longest = max(1, int(counts.sum())), max(1, int(counts.max(initial=0)))
        return cls(rows, cols, entries, longest, group, run, tile_rows, tile_cols)

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
        used = np.take_along_axis(used, order[..., None], axis=2)
        tile, across, slot, column = np.nonzero(used)
        owner = tile * self.tile_groups + order[tile, across, slot]
        padded = np.zeros((self.row_tiles * self.tile_rows, self.cols), matrix.dtype)
        padded[: self.rows] = matrix
        runs = padded.reshape(-1, self.group, self.cols // self.run, self.run)
        start = across * (self.tile_cols // self.run) + column
        values = np.zeros((self.entries, self.run, self.group), matrix.dtype)
        values[: len(owner)] = runs[owner, :, start].transpose(0, 2, 1)
        columns = np.zeros(self.entries, self.column_dtype)
        columns[: len(owner)] = column * self.run
        ends = np.cumsum(np.take_along_axis(counts, order, axis=-1))
        arrays = {
            "values": values,
            "columns": columns,
            "starts": np.append(0, ends).astype(np.int32),
        }
        if self.tile_groups > 1:
            arrays["groups"] = order.reshape(-1).astype(self.group_dtype)
        return arrays

    def decode(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """Return the matrix ``(rows, cols)`` of ``arrays``; the exact inverse of :meth:`encode`."""
        values, starts = arrays["values"], arrays["starts"]
        slot = np.repeat(np.arange(self.slots), np.diff(starts))
        tile, across = np.divmod(slot // self.tile_groups, self.col_tiles)
        group = arrays["groups"][slot] if self.tile_groups > 1 else 0
        column = (across * self.tile_cols + arrays["columns"][: len(slot)]) // self.run
        shape = (self.row_tiles * self.tile_groups, self.group, self.cols // self.run, self.run)
        matrix = np.zeros(shape, values.dtype)
        matrix[tile * self.tile_groups + group, :, column] = values[: len(slot)].transpose(0, 2, 1)
        return matrix.reshape(-1, self.cols)[: self.rows]

    def _used(self, matrix: np.ndarray) -> np.ndarray:
        """Return ``(row tiles, column tiles, groups, runs)``: which runs hold a nonzero."""
        padded = np.zeros(
            (self.row_tiles * self.tile_rows, self.col_tiles * self.tile_cols), np.bool_
        )
        padded[: self.rows, : self.cols] = matrix != 0
        runs = self.tile_cols // self.run
        shape = (self.row_tiles, self.tile_groups, self.group, self.col_tiles, runs, self.run)
        return np.asarray(padded.reshape(shape).any(axis=(2, 5))).transpose(0, 2, 1, 3)
