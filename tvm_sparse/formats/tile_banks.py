"""Format of balanced matrices for GPU tiles: what a thread block decodes at a time, contiguous."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvm_sparse.base.numerics import FLOAT32
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.arrays import finite_matrix, itemsize
from tvm_sparse.formats.bank_slots import (
    BANKS,
    BankSlots,
    largest_counts,
    nonzeros,
    pack_indices,
    unpack_indices,
)
from tvm_sparse.formats.tile_grid import TileGrid

WHERE = "tile bank format"


@dataclass(frozen=True)
class TileBanksFormat(BankSlots, TileGrid):
    """Every bank of ``bank`` columns stores ``keep`` values, step by step of ``step`` columns.

    ``lanes`` rows and ``step`` columns make a tile; a tile's values lie side by side, row after
    row, and so do its indices. Any matrix fits; banks with fewer nonzeros, and the rows and columns
    that fill up the last tiles, store zeros with index 0. With ``apart`` more than 1, row ``r`` of
    a tile is stored in place ``r % apart * (lanes // apart) + r // apart``.

    Arrays of :meth:`encode`:

    * ``values`` ``(row_blocks, steps, lanes * slots)``, the matrix's dtype.
    * ``indices`` ``(row_blocks, steps, lanes * words)`` int32; a word holds ``32 // index_bits``
      in-bank indices of a row, lowest bits first.
    """

    rows: int
    cols: int
    keep: int
    bank: int
    lanes: int
    step: int
    apart: int = 1

    def __post_init__(self) -> None:
        """Refuse extents that cannot be stored."""
        self.check_keep(WHERE)
        if self.lanes % self.apart:
            raise UnsupportedError(
                WHERE, f"{self.lanes} rows of a tile", f"a multiple of {self.apart} (apart)"
            )
        if self.step % self.bank:
            raise UnsupportedError(
                WHERE, f"steps of {self.step} columns", f"a multiple of {self.bank} (the bank)"
            )

    @property
    def slots(self) -> int:
        """Values of a row in a tile."""
        return self.step // self.bank * self.keep

    @property
    def words(self) -> int:
        """Index words of a row in a tile."""
        return math.ceil(self.slots / self.slots_per_word)

    def nbytes(self, dtype: npt.DTypeLike = FLOAT32.weight) -> int:
        """Return the bytes of all arrays for values of ``dtype``."""
        row = self.slots * itemsize(dtype) + self.words * 4
        return self.row_blocks * self.lanes * self.steps * row

    @classmethod
    def of(cls, matrix: np.ndarray, *, lanes: int, step: int, apart: int = 1) -> TileBanksFormat:
        """Return the format of ``matrix`` that takes the fewest bytes, over all bank sizes."""
        rows, cols = matrix.shape
        banks = [bank for bank in BANKS if step % bank == 0]
        keeps = largest_counts(matrix, banks)
        formats = [
            cls(rows, cols, keep, bank, lanes, step, apart)
            for bank, keep in zip(banks, keeps, strict=True)
        ]
        return min(formats, key=lambda format: format.nbytes(matrix.dtype.name))

    def encode(self, matrix: np.ndarray) -> dict[str, np.ndarray]:
        """Return the arrays of ``matrix`` ``(rows, cols)``; raise if a bank holds too much."""
        matrix = finite_matrix(matrix, (self.rows, self.cols), WHERE)
        found = nonzeros(matrix, self.bank, self.keep, WHERE)
        tile, inner = np.divmod(found.bank, self.step // self.bank)
        block, lane = np.divmod(found.row, self.lanes)
        group, inside = lane % self.apart, lane // self.apart
        lane = group * (self.lanes // self.apart) + inside
        place = (block, tile, lane, inner * self.keep + found.rank)
        shape = (self.row_blocks, self.steps, self.lanes, self.slots)
        values, index = np.zeros(shape, matrix.dtype), np.zeros(shape, np.uint32)
        values[place] = matrix[found.row, found.column]
        index[place] = found.column % self.bank
        tiles = (self.row_blocks, self.steps, -1)
        words = pack_indices(index, self.index_bits)
        return {"values": values.reshape(tiles), "indices": words.reshape(tiles)}

    def decode(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """Return the matrix ``(rows, cols)``; the exact inverse of :meth:`encode`."""
        tiles = (self.row_blocks, self.steps, self.lanes)
        values = arrays["values"].reshape(*tiles, self.slots)
        words = arrays["indices"].reshape(*tiles, self.words)
        index = unpack_indices(words, self.index_bits, self.slots)
        block, step, place, slot = np.indices(values.shape)
        group, inside = np.divmod(place, self.lanes // self.apart)
        lane = inside * self.apart + group
        column = step * self.step + slot // self.keep * self.bank + index
        shape = (self.row_blocks * self.lanes, self.steps * self.step)
        matrix = np.zeros(shape, values.dtype)
        # A sum: unused slots name a column that another slot may fill, with the value zero.
        np.add.at(matrix, (block * self.lanes + lane, column), values)
        return matrix[: self.rows, : self.cols]
