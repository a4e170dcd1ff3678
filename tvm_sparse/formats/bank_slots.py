"""What storages of banks share: counting nonzeros, ranking them in their bank, packing indices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.patterns.cost import index_bits

WORD_BITS = 32
BANKS = (8, 16, 32, 64, 128, 256)
"""Bank sizes that formats try; each is twice the one before."""


class BankSlots:
    """What formats have in common whose banks of ``bank`` columns store ``keep`` values each."""

    keep: int
    bank: int

    def check_keep(self, where: str) -> None:
        """Refuse more values than a bank has columns, or none."""
        if not 1 <= self.keep <= self.bank:
            raise UnsupportedError(where, f"keep = {self.keep}", f"1 to {self.bank} (the bank)")

    @property
    def index_bits(self) -> int:
        """Bits of an in-bank index."""
        return index_bits(self.bank)

    @property
    def slots_per_word(self) -> int:
        """Indices that fit a word."""
        return WORD_BITS // self.index_bits


@dataclass(frozen=True)
class Nonzeros:
    """The nonzeros of a matrix row by row: where each is, its bank, and its rank in that bank."""

    row: npt.NDArray[np.int64]
    column: npt.NDArray[np.int64]
    bank: npt.NDArray[np.int64]
    rank: npt.NDArray[np.int64]


def bank_counts(matrix: np.ndarray, bank: int) -> npt.NDArray[np.int32]:
    """Return the nonzeros of each bank ``(rows, banks)``."""
    starts = np.arange(0, matrix.shape[1], bank)
    return np.add.reduceat((matrix != 0).view(np.int8), starts, axis=1, dtype=np.int32)


def largest_counts(matrix: np.ndarray, banks: list[int]) -> list[int]:
    """Return the most nonzeros that a bank holds (at least 1), for each of ``banks``."""
    counts, largest = bank_counts(matrix, banks[0]), []
    for _ in banks:
        largest.append(max(1, int(counts.max(initial=0))))
        counts = np.add.reduceat(counts, np.arange(0, counts.shape[1], 2), axis=1)
    return largest


def nonzeros(matrix: np.ndarray, bank: int, keep: int, where: str) -> Nonzeros:
    """Return the nonzeros of ``matrix``; raise if a bank has more than ``keep``."""
    counts = bank_counts(matrix, bank)
    if counts.max(initial=0) > keep:
        first_row, full = (int(i) for i in np.argwhere(counts > keep)[0])
        raise UnsupportedError(
            where,
            f"{counts[first_row, full]} nonzeros in row {first_row}, bank {full}",
            f"at most {keep}",
            "use the format's method `of` to size it",
        )
    row, column = np.nonzero(matrix)
    # They come row by row, so a bank's are neighbours: the rank is the distance to its first one.
    first = np.cumsum(counts, axis=None) - counts.reshape(-1)
    at = column // bank
    return Nonzeros(row, column, at, np.arange(len(row)) - first[row * counts.shape[1] + at])


def pack_indices(index: npt.NDArray[np.uint32], bits: int) -> npt.NDArray[np.int32]:
    """Pack ``(..., slots)`` indices of ``bits`` into ``(..., words)``, lowest bits first."""
    per = WORD_BITS // bits
    padded = np.pad(index, [*[(0, 0)] * (index.ndim - 1), (0, -index.shape[-1] % per)])
    words = padded.reshape(*index.shape[:-1], padded.shape[-1] // per, per) << _shifts(bits)
    return np.bitwise_or.reduce(words, axis=-1).view(np.int32)


def unpack_indices(words: npt.NDArray[np.int32], bits: int, slots: int) -> npt.NDArray[np.int64]:
    """Undo :func:`pack_indices`."""
    mask = np.uint32((1 << bits) - 1)
    index = (words.view(np.uint32)[..., None] >> _shifts(bits)) & mask
    return index.reshape(*words.shape[:-1], -1)[..., :slots].astype(np.int64)


def _shifts(bits: int) -> npt.NDArray[np.uint32]:
    return np.arange(WORD_BITS // bits, dtype=np.uint32) * np.uint32(bits)
