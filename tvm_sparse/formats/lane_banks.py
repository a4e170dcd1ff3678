"""Format of balanced matrices for GPUs: a lane of a warp owns every 32nd bank of a row."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tvm_sparse.base.numerics import FLOAT32
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.arrays import finite_matrix, itemsize
from tvm_sparse.formats.bank_slots import (
    BANKS,
    BankSlots,
    first_zeros,
    largest_counts,
    nonzeros,
    pack_indices,
    unpack_indices,
)

WHERE = "lane bank format"
LANES = 32
VECTOR_BYTES = 16
"""Bytes of the widest load."""

CHUNK = 64
"""Slots of a chunk, at most: a chunk's loads and sums are unrolled."""


@dataclass(frozen=True)
class LaneBanksFormat(BankSlots):
    """Every bank of ``bank`` columns stores ``keep`` values; lane ``l`` owns banks ``l + 32 c``.

    The slots of a lane are its banks one after another. They are cut into chunks of :attr:`chunk`,
    of ``most`` where that is enough for whole vectors and words:
    a lane reads values ``vector`` at a time and its indices in whole words. Any matrix fits; banks
    with fewer nonzeros store zeros, with the index of a column that is zero, and so do the lanes of
    a row that has fewer banks.

    Arrays of :meth:`encode`:

    * ``values`` ``(rows, chunks, chunk / vector, 32, vector)``, the matrix's dtype.
    * ``indices`` ``(rows, chunks, 32, words)`` int32; a word holds ``32 // index_bits`` in-bank
      indices of consecutive slots, lowest bits first. With ``beside > 0`` they are
      ``(rows, chunks, words / beside, 32, beside)``: lanes next to each other read words that are.
    """

    rows: int
    cols: int
    keep: int
    bank: int
    vector: int
    beside: int = 0
    most: int = CHUNK

    def __post_init__(self) -> None:
        """Refuse extents that cannot be stored."""
        self.check_keep(WHERE)
        if self.beside and self.words % self.beside:
            found = f"{self.beside} of {self.words} words side by side"
            raise UnsupportedError(WHERE, found, "a divisor")

    @property
    def turns(self) -> int:
        """Banks of a lane."""
        return math.ceil(self.cols / (self.bank * LANES))

    @property
    def chunk(self) -> int:
        """Slots of a chunk: all of a lane where they are few, else whole vectors, words and banks.

        Where whole banks would make chunks too long, chunks end inside a bank.
        """
        slots = self.turns * self.keep
        if slots <= self.most:
            return math.ceil(slots / self.vector) * self.vector
        unit = math.lcm(self.vector, self.slots_per_word)
        if math.lcm(unit, self.keep) <= self.most:
            unit = math.lcm(unit, self.keep)
        sizes = range(unit, max(unit, self.most) + 1, unit)
        return min(sizes, key=lambda size: (math.ceil(slots / size) * size, -size))

    @property
    def chunks(self) -> int:
        """Chunks of a lane."""
        return math.ceil(self.turns * self.keep / self.chunk)

    @property
    def words(self) -> int:
        """Index words of a chunk."""
        return math.ceil(self.chunk / self.slots_per_word)

    @property
    def slots(self) -> int:
        """Slots of a lane, padding included."""
        return self.chunks * self.chunk

    def nbytes(self, dtype: npt.DTypeLike = FLOAT32.weight) -> int:
        """Return the bytes of all arrays for values of ``dtype``."""
        lane = self.slots * itemsize(dtype) + self.chunks * self.words * 4
        return self.rows * LANES * lane

    @classmethod
    def of(cls, matrix: np.ndarray) -> LaneBanksFormat:
        """Return a small format of ``matrix``, over all bank sizes.

        Of those that take at most an eighth more than the smallest, the one with the widest loads.
        """
        rows, cols = matrix.shape
        size = itemsize(matrix.dtype.name)
        banks = [bank for bank in BANKS if bank <= max(BANKS[0], cols)]
        keeps = largest_counts(matrix, banks)
        formats = [
            cls(rows, cols, keep, bank, vector)
            for bank, keep in zip(banks, keeps, strict=True)
            for vector in (1, 2, 4, 8)
            if vector * size <= VECTOR_BYTES
        ]
        nbytes = {format: format.nbytes(matrix.dtype.name) for format in formats}
        most = min(nbytes.values()) * 9 / 8
        fit = [format for format in formats if nbytes[format] <= most]
        return max(fit, key=lambda format: (format.vector, -nbytes[format], -format.bank))

    def words_beside(self) -> LaneBanksFormat:
        """Return this format with words side by side, as many as a load takes."""
        return replace(self, beside=math.gcd(self.words, VECTOR_BYTES // 4))

    def encode(self, matrix: np.ndarray) -> dict[str, np.ndarray]:
        """Return the arrays of ``matrix`` ``(rows, cols)``; raise if a bank holds too much."""
        matrix = finite_matrix(matrix, (self.rows, self.cols), WHERE)
        found = nonzeros(matrix, self.bank, self.keep, WHERE)
        slot = found.bank // LANES * self.keep + found.rank
        place = (found.row, found.bank % LANES, slot)
        slots = (self.rows, LANES, self.slots)
        values, index = np.zeros(slots, matrix.dtype), np.zeros(slots, np.uint32)
        fillers = np.zeros((self.rows, self.turns * LANES), np.uint32)
        zeros = first_zeros(matrix, self.bank)
        fillers[:, : zeros.shape[1]] = zeros
        of_lanes = fillers.reshape(self.rows, self.turns, LANES).swapaxes(1, 2)
        index[..., : self.turns * self.keep] = of_lanes.repeat(self.keep, axis=-1)
        values[place] = matrix[found.row, found.column]
        index[place] = found.column % self.bank
        lanes = (self.rows, LANES, self.chunks, self.chunk // self.vector, self.vector)
        packed = values.reshape(lanes).transpose(0, 2, 3, 1, 4)
        words = pack_indices(index.reshape(*lanes[:3], self.chunk), self.index_bits)
        return {
            "values": np.ascontiguousarray(packed),
            "indices": self._beside(words.transpose(0, 2, 1, 3)),
        }

    @property
    def word_shape(self) -> tuple[int, ...]:
        """Extents of the words of a chunk, lanes included."""
        if not self.beside:
            return (LANES, self.words)
        return (self.words // self.beside, LANES, self.beside)

    def _beside(self, words: np.ndarray) -> np.ndarray:
        """Return words ``(rows, chunks, 32, words)`` in their stored order."""
        if self.beside:
            parts = (*words.shape[:3], self.words // self.beside, self.beside)
            words = words.reshape(parts).swapaxes(2, 3)
        return np.ascontiguousarray(words)

    def decode(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """Return the matrix ``(rows, cols)``; the exact inverse of :meth:`encode`."""
        values = arrays["values"].transpose(0, 3, 1, 2, 4).reshape(self.rows, LANES, -1)
        used = self.turns * self.keep
        words = arrays["indices"]
        if self.beside:
            words = words.swapaxes(2, 3).reshape(self.rows, self.chunks, LANES, self.words)
        words = np.ascontiguousarray(words.transpose(0, 2, 1, 3))
        index = unpack_indices(words, self.index_bits, self.chunk)
        index = index.reshape(self.rows, LANES, -1)[..., :used]
        shape = (self.rows, LANES, self.turns, self.keep)
        turn = np.arange(self.turns)[:, None] * LANES + np.arange(LANES)[:, None, None]
        column = turn * self.bank + index.reshape(shape)
        matrix = np.zeros((self.rows, self.turns * LANES * self.bank), values.dtype)
        row = np.arange(self.rows)[:, None]
        # A sum: unused slots name a column that another slot may fill, with the value zero.
        flat = values[..., :used].reshape(self.rows, -1)
        np.add.at(matrix, (row, column.reshape(self.rows, -1)), flat)
        return matrix[:, : self.cols]
