"""Format of joint masks for GPU tiles: the tiles that hold a nonzero, banks inside them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvm_sparse.base.numerics import FLOAT32
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.arrays import finite_matrix
from tvm_sparse.formats.tile_banks import TileBanksFormat

WHERE = "kept tile format"


@dataclass(frozen=True)
class KeptTilesFormat:
    """Every block of rows stores equally many tiles of ``banks.lanes`` x ``banks.step``.

    ``banks`` stores the kept tiles pushed together, so its columns are those of all kept tiles of
    a block; blocks that need fewer tiles store empty ones of the matrix. Any matrix fits.

    Arrays of :meth:`encode`: those of ``banks``, then ``kept`` ``(row_blocks * slots,)`` int32, the
    tile column of each stored tile, ascending in a block of rows.
    """

    cols: int
    banks: TileBanksFormat

    @property
    def rows(self) -> int:
        """Rows of the matrix."""
        return self.banks.rows

    @property
    def slots(self) -> int:
        """Tiles that a block of rows stores."""
        return self.banks.steps

    @property
    def across(self) -> int:
        """Tiles of a block of rows, kept or not."""
        return math.ceil(self.cols / self.banks.step)

    def nbytes(self, dtype: npt.DTypeLike = FLOAT32.weight) -> int:
        """Return the bytes of all arrays for values of ``dtype``."""
        return self.banks.nbytes(dtype) + 4 * self.banks.row_blocks * self.slots

    @classmethod
    def of(cls, matrix: np.ndarray, *, lanes: int, step: int, apart: int = 1) -> KeptTilesFormat:
        """Return the format of ``matrix`` that takes the fewest bytes, over all bank sizes."""
        slots = most_kept(_holds(matrix, lanes, step))
        kept = np.sort(_kept_first(matrix, lanes, step)[:, :slots], axis=1)
        pushed = _pushed(matrix, kept, lanes, step)
        banks = TileBanksFormat.of(pushed, lanes=lanes, step=step, apart=apart)
        return cls(matrix.shape[1], banks)

    def encode(self, matrix: np.ndarray) -> dict[str, np.ndarray]:
        """Return the arrays of ``matrix`` ``(rows, cols)``; raise if a block keeps too much."""
        matrix = finite_matrix(matrix, (self.rows, self.cols), WHERE)
        size = self.banks.lanes, self.banks.step
        counts = _holds(matrix, *size).sum(1)
        if counts.max(initial=0) > self.slots:
            block = int(np.argmax(counts))
            raise UnsupportedError(
                WHERE,
                f"{counts[block]} tiles in block row {block}",
                f"at most {self.slots}",
                "use the format's method `of` to size it",
            )
        kept = np.sort(_kept_first(matrix, *size)[:, : self.slots], axis=1)
        arrays = self.banks.encode(_pushed(matrix, kept, *size))
        return {**arrays, "kept": kept.astype(np.int32).reshape(-1)}

    def decode(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """Return the matrix ``(rows, cols)``; the exact inverse of :meth:`encode`."""
        lanes, step = self.banks.lanes, self.banks.step
        pushed = self.banks.decode(arrays)
        matrix = np.zeros((self.rows, self.across * step), pushed.dtype)
        for block, kept in enumerate(arrays["kept"].reshape(-1, self.slots)):
            rows = slice(block * lanes, (block + 1) * lanes)
            matrix[rows, _columns(kept, step)] = pushed[rows]
        return matrix[:, : self.cols]


def most_kept(holds: npt.NDArray[np.bool_]) -> int:
    """Return the most tiles with a nonzero in a block of rows, or 1; ``holds`` says which have."""
    return max(1, int(holds.sum(1).max(initial=0)))


def _holds(matrix: np.ndarray, lanes: int, step: int) -> npt.NDArray[np.bool_]:
    """Return which tiles ``(row_blocks, across)`` of ``matrix`` hold a nonzero."""
    rows, cols = (
        np.arange(0, n, size) for n, size in zip(matrix.shape, (lanes, step), strict=True)
    )
    down = np.logical_or.reduceat(matrix != 0, rows, axis=0)
    holds: npt.NDArray[np.bool_] = np.logical_or.reduceat(down, cols, axis=1)
    return holds


def _kept_first(matrix: np.ndarray, lanes: int, step: int) -> npt.NDArray[np.int64]:
    """Return the tiles of each block of rows: those that hold a nonzero, then the others."""
    order = np.argsort(~_holds(matrix, lanes, step), axis=1, kind="stable")
    return order.astype(np.int64)


def _pushed(
    matrix: np.ndarray, kept: npt.NDArray[np.int64], lanes: int, step: int
) -> npt.NDArray[np.generic]:
    """Return the tiles ``kept`` ``(row_blocks, slots)`` of ``matrix``, pushed together."""
    rows, cols = matrix.shape
    wide = np.pad(matrix, ((0, 0), (0, -cols % step)))
    out = np.zeros((rows, kept.shape[1] * step), matrix.dtype)
    for block, tiles in enumerate(kept):
        part = slice(block * lanes, (block + 1) * lanes)
        out[part] = wide[part][:, _columns(tiles, step)]
    return out


def _columns(tiles: npt.NDArray[np.integer], step: int) -> npt.NDArray[np.int64]:
    """Return the columns of the given tiles, one after another."""
    return (tiles[:, None].astype(np.int64) * step + np.arange(step)).reshape(-1)
