"""Format of the banks that hold a nonzero, as many entries of few values as each needs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tvm_sparse.base.numerics import FLOAT32
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.arrays import chunks, finite_matrix, index_dtype, itemsize
from tvm_sparse.formats.bank_slots import (
    BankSlots,
    bank_counts,
    halves,
    one_by_one,
    pack_indices,
    round_up,
    side_by_side,
    summed,
    unpack_indices,
)
from tvm_sparse.formats.idle_rows import Idle, idle_rows, parts_of
from tvm_sparse.formats.sliding_banks import SlidingBanks, nonzero_bits
from tvm_sparse.machine.vector import BANK, LANES

WHERE = "compressed banks"
BANKS = (BANK, 2 * BANK, 4 * BANK)
"""Columns that a lookup can have."""


@dataclass(frozen=True)
class CompressedBanksFormat(BankSlots):
    """Entries of ``keep`` values a row, for blocks of ``lanes`` rows, each from a bank of columns.

    A bank begins where its rows have something left to store, so nothing is spent on columns that
    are empty in all of them; a row may be ahead of the others by the width of a bank
    (:class:`~tvm_sparse.formats.sliding_banks.SlidingBanks`). No bank crosses a multiple of
    ``span`` columns, the taps of a convolution. A slot that is not needed names a column of its
    bank in which its row is zero. Where there is none, it shares the value of the slot before it.

    Arrays of :meth:`encode`:

    * ``values`` ``(entries, slots, lanes * depth)``, the matrix's dtype.
    * ``indices`` ``(entries, words, lanes * depth)``: in-bank columns of :attr:`index_bits` each,
      lowest bits first; int32, or smaller and unsigned with depth or where those of an entry fit.
    * ``columns`` ``(entries,)``, uint8 to int32: first column of an entry's bank.
    * ``starts`` ``(blocks + 1,)`` int32: first entry of each block of lanes; ``longest`` is the
      largest number of entries of one.
    """

    rows: int
    cols: int
    keep: int
    entries: int
    longest: int
    bank: int = BANK
    span: int = 0
    lanes: int = LANES
    depth: int = 1

    def __post_init__(self) -> None:
        """Refuse what no lookup reaches; a span of 0 is the whole row."""
        object.__setattr__(self, "span", self.span or self.cols)
        if self.bank not in BANKS or not 1 <= self.keep <= self.bank:
            raise UnsupportedError(
                WHERE,
                f"{self.keep} of {self.bank} columns",
                " or ".join(f"1 to {b} of {b}" for b in BANKS),
            )
        if self.span < self.bank or self.cols % self.span:
            raise UnsupportedError(
                WHERE,
                f"banks of {self.bank} columns in spans of {self.span} of {self.cols}",
                "spans that divide all columns and hold a bank",
            )
        self.check_keep(WHERE)

    @property
    def blocks(self) -> int:
        """Blocks of lanes; the last one may reach past the last row."""
        return -(-self.rows // self.lanes)

    @property
    def sliding(self) -> SlidingBanks:
        """How entries are found."""
        return SlidingBanks(self.cols, self.keep, self.bank, self.span, self.lanes)

    @property
    def words(self) -> int:
        """Words of indices of an entry."""
        return math.ceil(self.slots / self.slots_per_word)

    @property
    def index_dtype(self) -> np.dtype:
        """Type of ``indices``."""
        if self.depth > 1:
            return np.dtype(f"uint{self.word_bits}")
        choices = self.bank**self.keep
        return index_dtype(choices) if choices <= 2**16 else np.dtype(np.int32)

    @property
    def column_dtype(self) -> np.dtype:
        """Type of ``columns``."""
        return index_dtype(self.cols)

    def nbytes(self, dtype: npt.DTypeLike = FLOAT32.weight) -> int:
        """Return the bytes of all arrays for values of ``dtype``."""
        words = self.words * self.depth * self.index_dtype.itemsize
        lane = self.keep * itemsize(dtype) + words
        entry = self.lanes * lane + self.column_dtype.itemsize
        return self.entries * entry + 4 * (self.blocks + 1)

    @classmethod
    def of(
        cls,
        matrix: np.ndarray,
        *,
        keep: int | None = None,
        bank: int = BANK,
        span: int = 0,
        lanes: int = LANES,
        depth: int = 1,
    ) -> CompressedBanksFormat:
        """Return the format of ``matrix`` ``(rows, cols)`` in entries of ``keep`` values a row.

        By default that is what the fullest of all banks side by side holds.
        """
        rows, cols = matrix.shape
        if keep is None:
            keep = round_up(max(1, int(bank_counts(matrix, bank).max(initial=0))), depth)
        one = cls(rows, cols, keep, 1, 1, bank, span, lanes, depth)
        counts = one.sliding.counts(nonzero_bits(matrix))
        entries, longest = max(1, int(counts.sum())), max(1, int(counts.max(initial=0)))
        return replace(one, entries=entries, longest=longest)

    def encode(self, matrix: np.ndarray) -> dict[str, np.ndarray]:
        """Return the arrays of ``matrix`` ``(rows, cols)``; raise if it takes other entries."""
        matrix = finite_matrix(matrix, (self.rows, self.cols), WHERE)
        bits = nonzero_bits(matrix)
        counts = self.sliding.counts(bits)
        total, longest = int(counts.sum()), int(counts.max(initial=0))
        if max(1, total) != self.entries or longest > self.longest:
            raise UnsupportedError(
                WHERE,
                f"{total} entries of {self.keep} values a row, at most {longest} in a block row",
                f"{self.entries}, at most {self.longest}",
                "use CompressedBanksFormat.of to size the format",
            )
        wide = self.lanes * self.depth
        values = np.zeros((self.entries, self.slots, wide), matrix.dtype)
        words = np.zeros((self.entries, self.words, wide), self.index_dtype)
        columns = np.zeros(self.entries, self.column_dtype)
        first, taken, indices = self.sliding.fill(bits, total)
        columns[:total] = first
        block = np.repeat(np.arange(self.blocks), counts)
        # Zero times infinity is NaN; integers have none.
        exact = matrix.dtype.kind in "iu"
        idle = () if exact else tuple(idle_rows(matrix, block, first, taken, indices))
        for begin, some in chunks(indices):
            part = slice(begin, begin + len(some))
            held = self._values(matrix, block[part], first[part], taken[part], some)
            values[part] = side_by_side(held, self.depth)
        for row in idle:
            self._share_taken(values, indices, int(taken[row.source, row.lane]), row)
        for begin, some in chunks(indices):
            words[begin : begin + len(some)] = self._words(some)
        starts = np.append(0, np.cumsum(counts)).astype(np.int32)
        return {"values": values, "indices": words, "columns": columns, "starts": starts}

    def decode(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """Return the matrix ``(rows, cols)`` of ``arrays``; the exact inverse of :meth:`encode`."""
        values = one_by_one(arrays["values"], self.depth)
        words = np.ascontiguousarray(arrays["indices"].transpose(0, 2, 1)).astype(np.uint32)
        index = unpack_indices(words.view(np.int32), self.index_bits, self.slots, self.word_bits)
        index = one_by_one(index.transpose(0, 2, 1), self.depth).transpose(0, 2, 1)
        entry, slot, lane = np.nonzero(values)
        block = np.searchsorted(arrays["starts"], entry, side="right") - 1
        column = arrays["columns"][entry].astype(np.int64) + index[entry, lane, slot]
        # A sum: slots may share the value of one column.
        shape, place = (self.blocks * self.lanes, self.cols), (block * self.lanes + lane, column)
        return summed(shape, place, values[entry, slot, lane])[: self.rows]

    def _values(
        self,
        matrix: np.ndarray,
        block: npt.NDArray[np.int64],
        columns: npt.NDArray[np.int64],
        taken: npt.NDArray[np.uint8],
        indices: npt.NDArray[np.uint8],
    ) -> np.ndarray:
        """Return the values ``(entries, keep, lanes)`` of some entries."""
        used = np.arange(self.keep)[:, None] < taken[:, None]
        row = np.minimum(block[:, None] * self.lanes + np.arange(self.lanes), self.rows - 1)
        values = matrix[row[:, None], columns[:, None, None] + indices]
        values[~used] = 0
        again = np.zeros(used.shape, np.bool_)
        again[:, 1:] = ~used[:, 1:] & (indices[:, 1:] == indices[:, :-1]) & (values[:, :-1] != 0)
        for slot in range(2, self.keep):
            again[:, slot] |= ~used[:, slot] & again[:, slot - 1]
        if again.any():
            halves(values, again)
        return values

    def _share_taken(
        self, values: np.ndarray, indices: npt.NDArray[np.uint8], taken: int, idle: Idle
    ) -> None:
        """Give an idle row's slots parts of the last of the values ``taken`` from its source.

        That lies in the last column of their bank: none is left in it, and banks never move back.
        """
        indices[idle.entries, :, idle.lane] = self.bank - 1
        held = values.reshape(self.entries, self.slots, self.lanes, self.depth)[:, :, idle.lane]
        source = (idle.source, *divmod(taken - 1, self.depth))
        parts = parts_of(held[source], len(idle.entries) * self.keep + 1)
        held[source], held[idle.entries] = parts[0], parts[1:].reshape(-1, *held.shape[1:])

    def _words(self, indices: npt.NDArray[np.uint8]) -> np.ndarray:
        """Return the words of in-bank columns ``(entries, keep, lanes)``."""
        index = side_by_side(indices, self.depth).transpose(0, 2, 1).astype(np.uint32)
        words = pack_indices(index, self.index_bits, self.word_bits).transpose(0, 2, 1)
        return np.ascontiguousarray(words).view(np.uint32).astype(self.index_dtype)


def fullest_rows(counts: npt.NDArray[np.int32], lanes: int = LANES) -> npt.NDArray[np.int32]:
    """Return the most nonzeros of a row in each block ``(row blocks, banks)``.

    ``counts`` are the nonzeros of each bank of each row.
    """
    return np.maximum.reduceat(counts, np.arange(0, len(counts), lanes), axis=0)
