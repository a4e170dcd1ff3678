"""Format of block sparse matrices: kept blocks, equally many in the block rows of a bucket."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tvm_sparse.base.native import as_unsigned, library
from tvm_sparse.base.numerics import FLOAT32
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.arrays import finite_matrix, itemsize
from tvm_sparse.formats.buckets import Buckets, fill
from tvm_sparse.patterns.block import Block
from tvm_sparse.patterns.scan import Scan

WHERE = "block format"


@dataclass(frozen=True)
class BlockFormat:
    """Every block row stores the kept blocks of ``block_rows`` x ``block_cols``.

    Block rows of a bucket store equally many; unused blocks are zero and name one that is not kept.
    A block that would reach past the last column is moved left until it ends there; the columns
    that it has in common with its neighbour stay with the neighbour. Where both are stored they
    share such values by halves (integers: all with the neighbour), as zero times infinity is NaN.
    The last block row may reach past the last row.

    Arrays of :meth:`encode`:

    * ``values`` ``(buckets.slots, block_cols, block_rows)``, the matrix's dtype. A vector along the
      last axis is one column of a block, so that lanes may run along rows. A scalar of it
      multiplies a vector of the batch, so that they may run along the batch.
    * ``columns`` ``(buckets.slots,)`` int32: block column of each stored block, ascending in a row.
    * ``order`` ``(block rows,)`` int32: block row of the matrix at each stored position.
    * With ``kept > 0``, the blocks of all rows that hold a nonzero: ``counts`` ``(block rows,)``
      int32, those of each stored position.
    """

    rows: int
    cols: int
    block_rows: int
    block_cols: int
    buckets: Buckets
    kept: int = 0

    def __post_init__(self) -> None:
        """Refuse extents that cannot be stored."""
        if not 1 <= self.block_cols <= self.cols or self.block_rows < 1:
            raise UnsupportedError(
                WHERE,
                f"blocks {self.block_rows}x{self.block_cols}",
                f"at least one row and 1 to {self.cols} columns",
                "keep this layer dense",
            )
        if self.buckets.groups != self.down:
            raise UnsupportedError(WHERE, f"{self.buckets.groups} block rows", f"{self.down}")

    @property
    def down(self) -> int:
        """Block rows."""
        return -(-self.rows // self.block_rows)

    def block_start(self, column: int) -> int:
        """Return the first column of the blocks of a block column."""
        return min(column * self.block_cols, self.cols - self.block_cols)

    def nbytes(self, dtype: npt.DTypeLike = FLOAT32.weight) -> int:
        """Return the bytes of all arrays for values of ``dtype``."""
        block = self.block_rows * self.block_cols * itemsize(dtype)
        return self.buckets.slots * (block + 4) + 4 * self.down * (2 if self.kept else 1)

    @classmethod
    def of(cls, matrix: np.ndarray, pattern: Block, *, limit: int = 8) -> BlockFormat:
        """Return the format of ``matrix`` for blocks of ``pattern``, in at most ``limit`` buckets.

        With ``limit=1`` block rows keep their order.
        """
        rows, cols = matrix.shape
        size = pattern.rows, min(pattern.cols, cols)
        counts = np.count_nonzero(Scan(matrix).block_counts(*size), axis=1)
        return cls(rows, cols, *size, fill(counts, limit))

    def counted(self, matrix: np.ndarray) -> BlockFormat:
        """Return this format with the counts of ``matrix``, which it is the format of."""
        held = Scan(matrix).block_counts(self.block_rows, self.block_cols)
        return replace(self, kept=int(np.count_nonzero(held)))

    def encode(self, matrix: np.ndarray) -> dict[str, np.ndarray]:
        """Return the arrays of ``matrix`` ``(rows, cols)``; raise if it keeps too many blocks."""
        matrix = finite_matrix(matrix, (self.rows, self.cols), WHERE)
        kept = Scan(matrix).block_counts(self.block_rows, self.block_cols) > 0
        counts = kept.sum(1)
        order = self.buckets.order(counts, WHERE)
        columns = self.buckets.columns(kept[order])
        used = self.buckets.used(counts[order]).view(np.uint8)
        owner = np.repeat(order, self.buckets.slots_of)
        shape = (self.buckets.slots, self.block_cols, self.block_rows)
        values = np.empty(shape, matrix.dtype)
        library().pack_blocks(as_unsigned(matrix), owner, columns, used, as_unsigned(values))
        self._share_common(values, columns, owner)
        arrays = {"values": values, "columns": columns, "order": order}
        return {**arrays, "counts": counts[order].astype(np.int32)} if self.kept else arrays

    def decode(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """Return the matrix ``(rows, cols)``; the exact inverse of :meth:`encode`."""
        values, size = arrays["values"], (self.block_rows, self.block_cols)
        matrix = np.zeros((self.down * size[0], self.cols), values.dtype)
        owner = np.repeat(arrays["order"], self.buckets.slots_of)
        places = zip(owner.tolist(), arrays["columns"].tolist(), values, strict=True)
        for row, column, block in places:
            start = self.block_start(column)
            # A sum: an unused block holds zeros, and two blocks share their common columns.
            matrix[row * size[0] :, start:][: size[0], : size[1]] += block.T
        return matrix[: self.rows]

    def _share_common(
        self, values: np.ndarray, columns: npt.NDArray[np.int32], owner: npt.NDArray[np.int32]
    ) -> None:
        """Give a last block that was moved left half of what its neighbour has in common with it.

        Blocks ascend in a row, so its neighbour is the slot before, or not stored and zero.
        """
        last = (self.cols - 1) // self.block_cols
        common = last * self.block_cols - self.block_start(last)
        if not common or values.dtype.kind in "iu":
            return
        pairs = (columns[1:] == last) & (columns[:-1] == last - 1) & (owner[1:] == owner[:-1])
        at = np.flatnonzero(pairs)
        half = (values[at, self.block_cols - common :] / 2).astype(values.dtype)
        values[at + 1, :common] = half
        values[at, self.block_cols - common :] -= half
