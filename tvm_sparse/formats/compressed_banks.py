"""Storage of the banks that hold a nonzero, as many entries of few values as each needs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.arrays import chunks, index_dtype, itemsize
from tvm_sparse.formats.bank_slots import (
    BankSlots,
    bank_counts,
    one_by_one,
    pack_indices,
    round_up,
    side_by_side,
    unpack_indices,
)
from tvm_sparse.formats.compressed_rows import CompressedRowsFormat
from tvm_sparse.machine.vector import BANK, LANES
from tvm_sparse.numerics import FLOAT32

WHERE = "compressed banks"
BANKS = (BANK, 2 * BANK, 4 * BANK)
"""Columns that a lookup can have."""


@dataclass(frozen=True)
class CompressedBanksFormat(BankSlots):
    """Blocks of lanes x bank as ``outer`` keeps them, in ``entries`` of ``keep`` values a row.

    A block whose fullest row holds more takes several entries, all with the same first column, so
    that it costs what its own fullest row needs and not what that of the matrix does.

    Arrays of :meth:`encode`:

    * ``values`` ``(entries, slots, lanes * depth)``, the matrix's dtype; what is not used is zero.
    * ``indices`` ``(entries, words, lanes * depth)``: in-bank columns of :attr:`index_bits` each,
      lowest bits first; int32, or smaller and unsigned with depth or where those of an entry fit.
    * ``columns`` ``(entries,)``, uint8 to int32: first column of an entry's bank.
    * ``starts`` ``(slots + 1,)`` int32: first entry of each block of lanes; ``longest`` is the
      largest number of entries of one.
    """

    outer: CompressedRowsFormat
    keep: int
    entries: int
    longest: int
    depth: int = 1

    def __post_init__(self) -> None:
        """Refuse blocks that are no banks."""
        if self.bank not in BANKS or not 1 <= self.keep <= self.bank:
            raise UnsupportedError(
                WHERE,
                f"{self.keep} of {self.bank} columns",
                " or ".join(f"1 to {b} of {b}" for b in BANKS),
            )
        self.check_keep(WHERE)

    @property
    def bank(self) -> int:  # type: ignore[override]
        """Columns of a bank."""
        return self.outer.run

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

    def nbytes(self, dtype: npt.DTypeLike = FLOAT32.weight) -> int:
        """Return the bytes of all arrays for values of ``dtype``."""
        words = self.words * self.depth * self.index_dtype.itemsize
        lane = self.keep * itemsize(dtype) + words
        entry = self.outer.group * lane + self.outer.column_dtype.itemsize
        return self.entries * entry + 4 * (self.outer.slots + 1)

    @classmethod
    def of(
        cls,
        matrix: np.ndarray,
        *,
        keep: int | None = None,
        bank: int = BANK,
        lanes: int = LANES,
        depth: int = 1,
    ) -> CompressedBanksFormat:
        """Return the format of ``matrix`` in entries of ``keep``, by default one for each bank."""
        outer = CompressedRowsFormat.of(
            matrix, group=lanes, run=bank, tile_rows=lanes, tile_cols=matrix.shape[1]
        )
        fullest = fullest_rows(bank_counts(matrix, bank), lanes)
        keep = keep or round_up(max(1, int(fullest.max(initial=0))), depth)
        parts = -(-fullest // keep)
        longest = int(parts.sum(1).max(initial=0))
        return cls(outer, keep, max(1, int(parts.sum())), max(1, longest), depth)

    def encode(self, matrix: np.ndarray) -> dict[str, np.ndarray]:
        """Return the arrays of ``matrix`` ``(rows, cols)``; raise if it takes other entries."""
        arrays = self.outer.encode(matrix)
        blocks, starts = arrays["values"], arrays["starts"]
        parts = np.concatenate([self._parts(some) for _, some in chunks(blocks)])
        first = np.append(0, np.cumsum(parts)).astype(np.int32)
        parts[starts[-1] :] = 1  # A matrix of zeros has one entry.
        total, longest = int(parts.sum()), int(np.diff(first[starts]).max(initial=0))
        if total != self.entries or longest > self.longest:
            raise UnsupportedError(
                WHERE,
                f"{total} entries of {self.keep} values a row, at most {longest} in a block row",
                f"{self.entries}, at most {self.longest}",
                "use CompressedBanksFormat.of to size the format",
            )
        lanes = self.outer.group
        wide = lanes * self.depth
        values = np.zeros((total, self.slots, wide), blocks.dtype)
        words = np.zeros((total, self.words, wide), self.index_dtype)
        for at, some in chunks(blocks):
            begin, end = first[at], first[at + len(some)]
            values[begin:end], words[begin:end] = self._pack(some, first[at:] - begin)
        columns = np.repeat(arrays["columns"], parts)
        return {"values": values, "indices": words, "columns": columns, "starts": first[starts]}

    def decode(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """Return the matrix ``(rows, cols)`` of ``arrays``; the exact inverse of :meth:`encode`."""
        values, lanes = one_by_one(arrays["values"], self.depth), self.outer.group
        words = np.ascontiguousarray(arrays["indices"].transpose(0, 2, 1)).astype(np.uint32)
        index = unpack_indices(words.view(np.int32), self.index_bits, self.slots, self.word_bits)
        index = one_by_one(index.transpose(0, 2, 1), self.depth).transpose(0, 2, 1)
        entry, slot, lane = np.nonzero(values)
        block = np.searchsorted(arrays["starts"], entry, side="right") - 1
        matrix = np.zeros((self.outer.slots * lanes, self.outer.cols), values.dtype)
        column = arrays["columns"][entry].astype(np.int64) + index[entry, lane, slot]
        matrix[block * lanes + lane, column] = values[entry, slot, lane]
        return matrix[: self.outer.rows]

    def _parts(self, blocks: np.ndarray) -> npt.NDArray[np.int64]:
        """Return how many entries each block takes."""
        fullest = np.count_nonzero(blocks, axis=1).max(axis=1, initial=0)
        return np.asarray(-(-fullest // self.keep))

    def _pack(self, blocks: np.ndarray, first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return values and words of the entries of ``blocks``; ``first`` is the first of each."""
        used = blocks != 0
        rank = np.cumsum(used, axis=1, dtype=np.int8) - 1
        block, column, lane = np.nonzero(used)
        part, slot = np.divmod(rank[block, column, lane], self.keep)
        entry, count = first[block] + part, int(first[len(blocks)])
        values = np.zeros((count, self.keep, blocks.shape[2]), blocks.dtype)
        index = np.zeros((count, blocks.shape[2], self.keep), np.uint32)
        values[entry, slot, lane] = blocks[block, column, lane]
        index[entry, lane, slot] = column
        index = side_by_side(index.transpose(0, 2, 1), self.depth).transpose(0, 2, 1)
        words = pack_indices(index, self.index_bits, self.word_bits).transpose(0, 2, 1)
        values = side_by_side(values, self.depth)
        return values, words.view(np.uint32).astype(self.index_dtype)


def fullest_rows(counts: npt.NDArray[np.int32], lanes: int = LANES) -> npt.NDArray[np.int32]:
    """Return the most nonzeros of a row in each block ``(row blocks, banks)``.

    ``counts`` are the nonzeros of each bank of each row.
    """
    return np.maximum.reduceat(counts, np.arange(0, len(counts), lanes), axis=0)
