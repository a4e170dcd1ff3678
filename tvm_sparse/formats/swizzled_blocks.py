"""Kept blocks in the order of shared memory, as Hopper's tensor cores read them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.arrays import finite_matrix, itemsize
from tvm_sparse.patterns.scan import Scan

WHERE = "swizzled blocks"

EDGE = 64
"""Columns of a block, and the features that a block is a multiple of."""

CHUNK = 8
"""Values of 16 bits that stay together: 16 bytes."""


@dataclass(frozen=True)
class SwizzledBlocksFormat:
    """Block rows store the blocks that they keep, one after another, without padding.

    Blocks are ``block_rows`` x 64. The last ones may reach past the matrix, with zeros. A ``whole``
    matrix keeps all of them, whatever they hold.

    Arrays of :meth:`encode`:

    * ``values`` ``(kept, block_rows, 64)``, 16 bits each. The 8 pieces of 16 bytes of row ``r`` are
      permuted: piece ``p`` lies at ``p ^ r % 8`` (PTX ISA, "128B swizzle mode").
    * ``columns`` ``(kept,)`` int32: block column of each block, ascending in a row.
    * ``starts`` ``(down + 1,)`` int32: the first block of each block row, and behind the last.

    Without any kept block, a single one of zeros is stored that no block row has.
    """

    rows: int
    cols: int
    block_rows: int
    kept: int
    whole: bool = False

    def __post_init__(self) -> None:
        """Refuse blocks that no product of a warpgroup multiplies."""
        if self.block_rows < EDGE or self.block_rows % EDGE:
            raise UnsupportedError(
                WHERE, f"blocks of {self.block_rows} rows", f"a multiple of {EDGE}"
            )

    @classmethod
    def of(cls, matrix: np.ndarray, block_rows: int) -> SwizzledBlocksFormat:
        """Return the format of ``matrix`` for blocks of ``block_rows`` x 64."""
        held = Scan(matrix).block_counts(block_rows, EDGE)
        rows, cols = matrix.shape
        return cls(rows, cols, block_rows, int(np.count_nonzero(held)))

    @classmethod
    def dense(cls, rows: int, cols: int, block_rows: int) -> SwizzledBlocksFormat:
        """Return the format that keeps all blocks of a matrix of ``rows`` x ``cols``."""
        return cls(rows, cols, block_rows, -(-rows // block_rows) * -(-cols // EDGE), whole=True)

    @property
    def down(self) -> int:
        """Block rows."""
        return -(-self.rows // self.block_rows)

    @property
    def across(self) -> int:
        """Block columns."""
        return -(-self.cols // EDGE)

    @property
    def stored(self) -> int:
        """Blocks that are stored."""
        return max(1, self.kept)

    def nbytes(self, dtype: npt.DTypeLike) -> int:
        """Return the bytes of all arrays for values of ``dtype``."""
        block = self.block_rows * EDGE * itemsize(dtype)
        return self.stored * (block + 4) + 4 * (self.down + 1)

    def encode(self, matrix: np.ndarray) -> dict[str, np.ndarray]:
        """Return the arrays of ``matrix`` ``(rows, cols)``; raise if it keeps other blocks."""
        matrix = finite_matrix(matrix, (self.rows, self.cols), WHERE)
        counts = Scan(matrix).block_counts(self.block_rows, EDGE)
        places = np.argwhere((counts > 0) | self.whole)
        if len(places) != self.kept:
            raise UnsupportedError(WHERE, f"{len(places)} kept blocks", f"{self.kept}")
        whole = np.zeros((self.down * self.block_rows, self.across * EDGE), matrix.dtype)
        whole[: self.rows, : self.cols] = matrix
        blocks = whole.reshape(self.down, self.block_rows, self.across, EDGE).swapaxes(1, 2)
        values = np.zeros((self.stored, self.block_rows, EDGE), matrix.dtype)
        values[: self.kept] = swizzled(blocks[places[:, 0], places[:, 1]])
        columns = np.zeros(self.stored, np.int32)
        columns[: self.kept] = places[:, 1]
        starts = np.searchsorted(places[:, 0], np.arange(self.down + 1)).astype(np.int32)
        return {"values": values, "columns": columns, "starts": starts}

    def decode(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """Return the matrix ``(rows, cols)``; the exact inverse of :meth:`encode`."""
        values, starts = swizzled(arrays["values"]), arrays["starts"]
        whole = np.zeros((self.down, self.across, self.block_rows, EDGE), values.dtype)
        owner = np.repeat(np.arange(self.down), np.diff(starts))
        whole[owner, arrays["columns"][: len(owner)]] = values[: len(owner)]
        flat = whole.swapaxes(1, 2).reshape(self.down * self.block_rows, -1)
        return flat[: self.rows, : self.cols]


def swizzled(blocks: np.ndarray) -> np.ndarray:
    """Return ``(count, rows, 64)`` with each row's pieces permuted; twice is nothing."""
    count, rows, _ = blocks.shape
    pieces = blocks.reshape(count, rows, EDGE // CHUNK, CHUNK)
    order = np.arange(EDGE // CHUNK)[None] ^ np.arange(rows)[:, None] % CHUNK
    return np.take_along_axis(pieces, order[None, :, :, None], 2).reshape(blocks.shape)
