"""Format of 2:4 matrices for sparse tensor cores: values and metadata in fragment order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.arrays import finite_matrix, itemsize
from tvm_sparse.formats.tile_grid import TileGrid

WHERE = "2:4 format"
QUAD, KEEP = 4, 2
"""Neighbouring columns of which so many are stored."""

EDGE = 32
"""Rows and columns of a piece: two ``mma.sp.m16n8k32`` share a register of metadata."""

LANES = 32
HELD = EDGE * EDGE * KEEP // QUAD // LANES
"""Values of a piece that one lane holds."""


@dataclass(frozen=True)
class TwoFourFormat(TileGrid):
    """Two of four neighbouring columns are stored, tile by tile, as ``mma.sp`` takes them.

    ``lanes`` rows and ``step`` columns make a tile of pieces of 32 x 32, pieces of the same rows
    first. Rows and columns that fill up the last tiles are zero.

    Arrays of :meth:`encode`:

    * ``values`` ``(row_blocks, steps, lanes * step / 2)``, the matrix's dtype. A piece has two
      halves of 16 rows, a half 32 lanes, a lane the eight values of its registers: lane ``4 g + t``
      those of rows ``g`` and ``g + 8`` at the stored columns ``2 t`` and ``8 + 2 t`` and the next.
    * ``metadata`` ``(row_blocks, steps, lanes * step / 32)`` int32: a word for each lane of a
      piece. Lane ``4 g + t`` has columns ``16 (t % 2)`` to ``16 (t % 2) + 15`` of the half
      ``t // 2``, which is the instruction's selector: row ``g`` in the low 16 bits, row ``g + 8``
      in the high ones; two bits name the column of a stored value in its quad, lowest first.
      (PTX ISA, "Matrix Fragments for sparse mma.m16n8k32 with .f16 and .bf16 types".)
    """

    rows: int
    cols: int
    lanes: int
    step: int

    def __post_init__(self) -> None:
        """Refuse extents that cannot be stored."""
        if self.lanes % EDGE or self.step % EDGE:
            found = f"tiles of {self.lanes} x {self.step}"
            raise UnsupportedError(WHERE, found, f"multiples of {EDGE}")

    @staticmethod
    def most(matrix: np.ndarray) -> int:
        """Return the most nonzeros in four neighbouring columns of ``matrix`` ``(rows, cols)``."""
        rows, cols = matrix.shape
        quads = np.pad(matrix != 0, ((0, 0), (0, -cols % QUAD))).reshape(rows, -1, QUAD)
        return int(np.count_nonzero(quads, axis=2).max(initial=0))

    @property
    def pieces(self) -> int:
        """Pieces of a tile."""
        return self.lanes * self.step // EDGE**2

    def nbytes(self, dtype: npt.DTypeLike = "float16") -> int:
        """Return the bytes of all arrays for values of ``dtype``."""
        piece = LANES * (HELD * itemsize(dtype) + 4)
        return self.row_blocks * self.steps * self.pieces * piece

    def encode(self, matrix: np.ndarray) -> dict[str, np.ndarray]:
        """Return the arrays of ``matrix`` ``(rows, cols)``; raise if a quad holds too much."""
        matrix = finite_matrix(matrix, (self.rows, self.cols), WHERE)
        shape = (self.row_blocks * self.lanes, self.steps * self.step)
        values, bits = kept_of_quads(matrix, shape)
        tiles = (self.row_blocks, self.steps, -1)
        return {
            "values": self._fragments(values).reshape(tiles),
            "metadata": self._words(bits).reshape(tiles),
        }

    def decode(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """Return the matrix ``(rows, cols)``; the exact inverse of :meth:`encode`."""
        values = arrays["values"].reshape(*self._pieces, 2, 8, 4, 2, 2, 2)
        # (block, step, down, across | half, g, t, chunk, high, low) -> rows, stored columns
        stored = values.transpose(0, 2, 4, 8, 5, 1, 3, 7, 6, 9)
        shape = (self.row_blocks * self.lanes, self.steps * self.step)
        words = arrays["metadata"].view(np.uint32).reshape(*self._pieces, 8, 2, 2, 1, 1)
        shifts = 16 * np.arange(2)[:, None] + 4 * np.arange(4)
        bits = words >> shifts.astype(np.uint32) & 15
        # (block, step, down, across | g, half, chunk, high, quad) -> rows, quads
        bits = bits.transpose(0, 2, 5, 7, 4, 1, 3, 6, 8).reshape(shape[0], -1)
        quads = quads_of(stored.reshape(*bits.shape, KEEP), bits)
        return quads.reshape(shape)[: self.rows, : self.cols]

    @property
    def _pieces(self) -> tuple[int, int, int, int]:
        """Return the extents of all pieces: tiles down and across, pieces of each."""
        return self.row_blocks, self.steps, self.lanes // EDGE, self.step // EDGE

    def _split(self, parts: np.ndarray, inner: tuple[int, ...]) -> np.ndarray:
        """Return ``parts`` with axes (block, down, half, high, g, step, across, ...)."""
        blocks, steps, down, across = self._pieces
        return parts.reshape(blocks, down, 2, 2, 8, steps, across, *inner)

    def _fragments(self, values: np.ndarray) -> np.ndarray:
        """Return the stored values (rows, quads, 2) in the order of registers."""
        parts = self._split(values, (2, 4, 2))
        return np.ascontiguousarray(parts.transpose(0, 5, 1, 6, 2, 4, 8, 7, 3, 9))

    def _words(self, bits: np.ndarray) -> np.ndarray:
        """Return the metadata (rows, quads) as words of lanes."""
        parts = self._split(bits, (2, 4))
        halves = (parts << 4 * np.arange(4, dtype=np.uint32)).sum(-1, dtype=np.uint32)
        words = halves[:, :, :, 0] | halves[:, :, :, 1] << 16
        # (block, down, half, g, step, across, chunk) -> (block, step, down, across, g, half, chunk)
        return np.ascontiguousarray(words.transpose(0, 4, 1, 5, 3, 2, 6)).view(np.int32)


def kept_of_quads(matrix: np.ndarray, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return what is kept of ``matrix``, filled up to ``shape``, and in which columns it lies.

    Values are ``(rows, quads, 2)``, columns ``(rows, quads)`` uint32 with two bits for each value,
    the lowest first. Raises if a quad holds too much.
    """
    if (most := TwoFourFormat.most(matrix)) > KEEP:
        raise UnsupportedError(
            WHERE, f"{most} nonzeros in {QUAD} neighbouring columns", f"at most {KEEP}"
        )
    padding = [(0, whole - size) for whole, size in zip(shape, matrix.shape, strict=True)]
    quads = np.pad(matrix, padding).reshape(shape[0], -1, QUAD)
    # Nonzeros first, then zeros: their columns differ, as the instruction demands.
    places = np.sort(np.argsort(quads == 0, axis=2, kind="stable")[:, :, :KEEP], axis=2)
    bits = (places[:, :, 0] | places[:, :, 1] << 2).astype(np.uint32)
    return np.take_along_axis(quads, places, 2), bits


def quads_of(values: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """Return the quads ``(rows, quads, 4)``; the inverse of :func:`kept_of_quads`."""
    quads = np.zeros((*bits.shape, QUAD), values.dtype)
    places = np.stack([bits & 3, bits >> 2], axis=2).astype(np.int64)
    np.put_along_axis(quads, places, values, 2)
    return quads
