"""2:4 matrices in the order of shared memory, as Hopper's tensor cores read them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.arrays import finite_matrix, itemsize
from tvm_sparse.formats.swizzled_blocks import EDGE, swizzled
from tvm_sparse.formats.two_four import KEEP, QUAD, kept_of_quads, quads_of

WHERE = "2:4 format of Hopper"

STEP = EDGE * QUAD // KEEP
"""Columns of which 64 are stored: what a row of shared memory holds."""

WORDS = 256
"""Words of metadata of 64 rows and a step."""

_NIBBLES, _HALF = np.arange(4, dtype=np.uint32) * 4, 16


@dataclass(frozen=True)
class SwizzledQuadsFormat:
    """Two of four neighbouring columns are stored, in tiles of ``block_rows`` x 128 columns.

    Rows and columns that fill up the last tiles are zero.

    Arrays of :meth:`encode`:

    * ``values`` ``(down, steps, block_rows, 64)``, 16 bits each, the pieces of 16 bytes of a row
      permuted as in :class:`~tvm_sparse.formats.swizzled_blocks.SwizzledBlocksFormat`.
    * ``metadata`` ``(down, steps, block_rows * 4)`` int32. A word has the places of 4 quads, each
      in 4 bits: of row ``r`` in its low half, of row ``r + 8`` in its high one. For each 64 rows
      words are ordered by 32 columns, 16 rows, ``r``, and half of the 32 columns, as the PTX ISA's
      figures of ``wgmma.mma_async.sp`` show metadata.
    """

    rows: int
    cols: int
    block_rows: int

    def __post_init__(self) -> None:
        """Refuse tiles that no product of a warpgroup multiplies."""
        if self.block_rows < EDGE or self.block_rows % EDGE:
            found = f"tiles of {self.block_rows} rows"
            raise UnsupportedError(WHERE, found, f"a multiple of {EDGE}")

    @property
    def down(self) -> int:
        """Tiles of rows."""
        return -(-self.rows // self.block_rows)

    @property
    def steps(self) -> int:
        """Tiles of 128 columns."""
        return -(-self.cols // STEP)

    def nbytes(self, dtype: npt.DTypeLike = "float16") -> int:
        """Return the bytes of all arrays for values of ``dtype``."""
        row = EDGE * itemsize(dtype) + 4 * WORDS // EDGE
        return self.down * self.steps * self.block_rows * row

    def encode(self, matrix: np.ndarray) -> dict[str, np.ndarray]:
        """Return the arrays of ``matrix`` ``(rows, cols)``; raise if a quad holds too much."""
        matrix = finite_matrix(matrix, (self.rows, self.cols), WHERE)
        values, bits = kept_of_quads(matrix, self._whole)
        tiles = values.reshape(self.down, self.block_rows, self.steps, EDGE).swapaxes(1, 2)
        flat = swizzled(tiles.reshape(-1, self.block_rows, EDGE))
        return {
            "values": flat.reshape(tiles.shape),
            "metadata": self._words(bits).reshape(self.down, self.steps, -1),
        }

    def decode(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """Return the matrix ``(rows, cols)``; the exact inverse of :meth:`encode`."""
        values = arrays["values"]
        flat = swizzled(values.reshape(-1, self.block_rows, EDGE)).reshape(values.shape)
        rows, cols = self._whole
        kept = flat.swapaxes(1, 2).reshape(rows, cols // QUAD, KEEP)
        words = arrays["metadata"].view(np.uint32)
        words = words.reshape(self.down, self.steps, -1, 4, 4, 8, 2)
        halves = np.stack([words & 0xFFFF, words >> _HALF])
        # (high, down, step, group, product, warp, r, half, quad) -> rows, quads
        bits = (halves[..., None] >> _NIBBLES & 15).transpose(1, 3, 5, 0, 6, 2, 4, 7, 8)
        return quads_of(kept, bits.reshape(rows, -1)).reshape(rows, -1)[: self.rows, : self.cols]

    @property
    def _whole(self) -> tuple[int, int]:
        return self.down * self.block_rows, self.steps * STEP

    def _words(self, bits: np.ndarray) -> np.ndarray:
        """Return the places (rows, quads) as words in the order of the class's text."""
        parts = bits.reshape(self.down, -1, 4, 2, 8, self.steps, 4, 2, 4)
        halves = (parts << _NIBBLES).sum(-1, dtype=np.uint32)
        words = halves[:, :, :, 0] | halves[:, :, :, 1] << _HALF
        # (down, group, warp, r, step, product, half) -> (down, step, group, product, warp, r, half)
        return np.ascontiguousarray(words.transpose(0, 4, 1, 5, 2, 3, 6)).view(np.int32)
