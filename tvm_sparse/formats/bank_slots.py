"""What formats of banks share: counting nonzeros, ranking them in their bank, packing indices."""

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
    """What formats have in common whose banks of ``bank`` columns store ``keep`` values each.

    A slot has ``depth`` values of each lane side by side, for machines that multiply and add up
    several columns of a lane at once; their indices lie side by side in the same order, in words
    that are smaller by as much. A bank has ``parts`` of equal size that store equally many values
    each, one part after the other; an index counts within its part, so that it needs fewer bits.
    """

    keep: int
    bank: int
    depth: int = 1
    parts: int = 1

    def check_keep(self, where: str) -> None:
        """Refuse more values than a bank has columns, none, or a part of a slot."""
        if not 1 <= self.keep <= self.bank:
            raise UnsupportedError(where, f"keep = {self.keep}", f"1 to {self.bank} (the bank)")
        if self.keep % self.depth:
            raise UnsupportedError(where, f"keep = {self.keep}", f"a multiple of {self.depth}")

    @property
    def slots(self) -> int:
        """Slots of a bank."""
        return self.keep // self.depth

    @property
    def word_bits(self) -> int:
        """Bits of a word of indices."""
        return WORD_BITS // self.depth

    @property
    def index_bits(self) -> int:
        """Bits of an index in its part of a bank."""
        return index_bits(self.bank // self.parts)

    @property
    def slots_per_word(self) -> int:
        """Indices that fit a word."""
        return self.word_bits // self.index_bits


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


def halves(values: np.ndarray, again: npt.NDArray[np.bool_]) -> None:
    """Give a slot that names the column of the one before it half of that one's value, in place.

    ``values`` and ``again`` are ``(..., keep, lanes)``. A zero there would make NaN of an infinite
    activation. Sums stay as they are, to rounding; so do the values that they stand for. Integers
    need none of this.
    """
    if values.dtype.kind in "iu":
        return
    for slot in range(1, values.shape[-2]):
        before = np.where(again[..., slot, :], values[..., slot - 1, :] / 2, 0).astype(values.dtype)
        values[..., slot, :] += before
        values[..., slot - 1, :] -= before


def summed(shape: tuple[int, ...], place: tuple[np.ndarray, ...], values: np.ndarray) -> np.ndarray:
    """Return zeros with ``values`` added at ``place``: in a type that holds the sums of halves."""
    wide = values.dtype if values.dtype.kind in "iu" else np.dtype(np.float64)
    total = np.zeros(shape, wide)
    np.add.at(total, place, values.astype(wide))
    return total.astype(values.dtype)


def first_zeros(matrix: np.ndarray, bank: int) -> npt.NDArray[np.int64]:
    """Return for each bank ``(rows, banks)`` its first column that is zero, 0 if none is.

    Columns beyond the last one are zero.
    """
    zeros = np.pad(matrix == 0, ((0, 0), (0, -matrix.shape[1] % bank)), constant_values=True)
    first: npt.NDArray[np.int64] = zeros.reshape(len(matrix), -1, bank).argmax(-1)
    return first


def side_by_side(values: np.ndarray, depth: int) -> np.ndarray:
    """Return ``(..., keep, lanes)`` as ``(..., keep / depth, lanes * depth)``, lane by lane."""
    *lead, keep, lanes = values.shape
    split = values.reshape(*lead, keep // depth, depth, lanes)
    return np.ascontiguousarray(split.swapaxes(-1, -2)).reshape(*lead, keep // depth, lanes * depth)


def one_by_one(values: np.ndarray, depth: int) -> np.ndarray:
    """Undo :func:`side_by_side`."""
    *lead, slots, wide = values.shape
    split = values.reshape(*lead, slots, wide // depth, depth)
    return np.ascontiguousarray(split.swapaxes(-1, -2)).reshape(*lead, slots * depth, wide // depth)


def round_up(keep: int, depth: int) -> int:
    """Return the least multiple of ``depth`` that holds ``keep`` values."""
    return -(-keep // depth) * depth


def pack_indices(
    index: npt.NDArray[np.uint32], bits: int, word_bits: int = WORD_BITS
) -> npt.NDArray[np.int32]:
    """Pack ``(..., slots)`` indices of ``bits`` into ``(..., words)``, lowest bits first."""
    per = word_bits // bits
    padded = np.pad(index, [*[(0, 0)] * (index.ndim - 1), (0, -index.shape[-1] % per)])
    words = padded.reshape(*index.shape[:-1], padded.shape[-1] // per, per) << _shifts(bits, per)
    return np.bitwise_or.reduce(words, axis=-1).view(np.int32)


def unpack_indices(
    words: npt.NDArray[np.int32], bits: int, slots: int, word_bits: int = WORD_BITS
) -> npt.NDArray[np.int64]:
    """Undo :func:`pack_indices`."""
    mask = np.uint32((1 << bits) - 1)
    index = (words.view(np.uint32)[..., None] >> _shifts(bits, word_bits // bits)) & mask
    return index.reshape(*words.shape[:-1], -1)[..., :slots].astype(np.int64)


def _shifts(bits: int, count: int) -> npt.NDArray[np.uint32]:
    return np.arange(count, dtype=np.uint32) * np.uint32(bits)
