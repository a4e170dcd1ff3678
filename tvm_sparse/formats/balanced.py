"""Format of balanced matrices: a fixed number of values a bank, lanes of rows side by side."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tvm_sparse.base.native import as_unsigned, bit_masks, library
from tvm_sparse.base.numerics import FLOAT32
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.arrays import finite_matrix, itemsize
from tvm_sparse.formats.bank_slots import (
    BankSlots,
    halves,
    one_by_one,
    pack_indices,
    round_up,
    side_by_side,
    summed,
    unpack_indices,
)
from tvm_sparse.machine.vector import BANK, LANES
from tvm_sparse.patterns.balanced import Balanced

WHERE = "balanced format"


@dataclass(frozen=True)
class BalancedFormat(BankSlots):
    """Every bank of ``bank`` columns stores ``keep`` values and their in-bank indices.

    ``lanes`` rows lie side by side, so that one vector holds the same slot of ``lanes`` rows;
    ``share`` such row blocks have common indices. A bank that would reach past the last column is
    moved left until it ends there, so every bank can be read whole; the columns it has in common
    with its neighbour stay with the neighbour. Banks in ``parts`` are whole, the last one too.
    ``segments`` such runs of ``cols / segments`` columns follow one another (the taps of a
    convolution in ``hwi`` order), and no bank crosses a run. A slot that is not needed names a
    column of its window in which its rows are zero. Where there is none, it shares the value of the
    slot before it.

    Arrays of :meth:`encode`:

    * ``values`` ``(row_blocks, banks, slots, lanes * depth)``, the matrix's dtype; what is not used
      is zero.
    * ``indices`` ``(row_blocks / share, words, lanes * depth)``, int32 or, with depth, smaller and
      unsigned; a word holds the ``index_bits`` wide indices of ``banks_per_word`` banks, lowest
      bits first (or a part of one bank, when one bank needs ``words_per_bank`` of them).
    """

    rows: int
    cols: int
    keep: int
    bank: int = BANK
    lanes: int = LANES
    share: int = 1
    segments: int = 1
    depth: int = 1
    parts: int = 1

    def __post_init__(self) -> None:
        """Refuse extents that cannot be stored."""
        if self.cols % self.segments or self.segment_cols < self.bank:
            raise UnsupportedError(
                WHERE,
                f"{self.cols} columns in {self.segments} segments",
                f"segments of at least {self.bank} columns",
                "keep this layer dense",
            )
        self.check_keep(WHERE)
        if self.parts > 1 and (self.segment_cols % self.bank or self.bank % self.parts):
            raise UnsupportedError(
                WHERE,
                f"banks of {self.bank} columns in {self.parts} parts, {self.segment_cols} columns",
                "whole banks and parts",
                "take one part",
            )
        if self.keep % self.parts:
            raise UnsupportedError(WHERE, f"keep = {self.keep}", f"a multiple of {self.parts}")

    @property
    def _plain(self) -> BalancedFormat:
        """The same values one by one: parts are banks, and a slot has one value."""
        bank, keep = self.bank // self.parts, self.keep // self.parts
        return replace(self, bank=bank, keep=keep, parts=1, depth=1)

    @property
    def segment_cols(self) -> int:
        """Columns of one segment."""
        return self.cols // self.segments

    @property
    def segment_banks(self) -> int:
        """Banks of one segment."""
        return math.ceil(self.segment_cols / self.bank)

    @property
    def banks(self) -> int:
        """Banks of a row."""
        return self.segments * self.segment_banks

    @property
    def row_blocks(self) -> int:
        """Blocks of ``lanes`` rows, a multiple of ``share``."""
        return math.ceil(self.rows / (self.lanes * self.share)) * self.share

    @property
    def words_per_bank(self) -> int:
        """Words that one bank needs (1 unless ``slots`` exceeds ``slots_per_word``)."""
        return math.ceil(self.slots / self.slots_per_word)

    @property
    def banks_per_word(self) -> int:
        """Banks that share a word: the largest divisor of ``segment_banks`` that fits."""
        fit = max(1, self.slots_per_word // self.slots)
        return max(d for d in range(1, fit + 1) if self.segment_banks % d == 0)

    @property
    def words(self) -> int:
        """Words of a row."""
        return self.banks // self.banks_per_word * self.words_per_bank

    def bank_start(self, bank: int) -> int:
        """Return the first column of a bank's window."""
        segment, inner = divmod(bank, self.segment_banks)
        start = min(inner * self.bank, self.segment_cols - self.bank)
        return segment * self.segment_cols + start

    def nbytes(self, dtype: npt.DTypeLike = FLOAT32.weight) -> int:
        """Return the bytes of all arrays for values of ``dtype``."""
        values = self.row_blocks * self.banks * self.keep * self.lanes * itemsize(dtype)
        words = self.row_blocks // self.share * self.words * self.lanes * self.depth
        return values + words * self.index_dtype.itemsize

    @property
    def index_dtype(self) -> np.dtype:
        """Type of ``indices``."""
        return np.dtype(f"uint{self.word_bits}" if self.depth > 1 else np.int32)

    @classmethod
    def of(
        cls,
        matrix: np.ndarray,
        pattern: Balanced | None = None,
        *,
        bank: int = BANK,
        lanes: int = LANES,
        share: int = 1,
        segments: int = 1,
        depth: int = 1,
        parts: int = 1,
    ) -> BalancedFormat:
        """Return the smallest format that holds every nonzero of ``matrix``.

        Banks are those of ``pattern``, as far as rows are that long, else of ``bank`` columns. They
        have ``parts`` where that needs no more values.
        """
        rows, cols = matrix.shape
        bank = bank if pattern is None else min(pattern.bank, cols // segments)
        probe = cls(rows, cols, depth, bank, lanes, share, segments, depth)
        matrix = finite_matrix(matrix, (rows, cols), WHERE)
        magnitude, _ = bit_masks(matrix.dtype, WHERE)
        raw = as_unsigned(matrix)

        def most(bank: int) -> int:
            return max(1, library().most_in_bank(raw, magnitude, bank, lanes, share, segments))

        whole = replace(probe, keep=round_up(most(bank), depth))
        if parts == 1 or probe.segment_cols % bank or bank % parts:
            return whole
        alike = whole.keep == parts * most(bank // parts)
        return replace(whole, parts=parts) if alike else whole

    def encode(self, matrix: np.ndarray) -> dict[str, np.ndarray]:
        """Return the arrays of ``matrix`` ``(rows, cols)``; raise if a bank holds too much."""
        if self.depth * self.parts > 1:
            plain = self._plain
            arrays = plain.encode(matrix)
            index = plain.slot_indices(arrays["indices"]).swapaxes(-1, -2)
            index = index.reshape(-1, self.banks, self.keep, self.lanes)
            values = arrays["values"].reshape(-1, self.banks, self.keep, self.lanes)
            indices = self._pack(side_by_side(index, self.depth))
            return {"values": side_by_side(values, self.depth), "indices": indices}
        matrix = finite_matrix(matrix, (self.rows, self.cols), WHERE)
        magnitude, _ = bit_masks(matrix.dtype, WHERE)
        values = np.empty((self.row_blocks, self.banks, self.keep, self.lanes), matrix.dtype)
        indices = np.empty((self.row_blocks // self.share, self.words, self.lanes), np.int32)
        beyond = library().pack_banks(
            as_unsigned(matrix),
            magnitude,
            self.bank,
            self.share,
            self.segments,
            self.banks_per_word,
            as_unsigned(values),
            indices,
        )
        if beyond >= 0:
            row, bank = divmod(beyond, self.banks)
            raise UnsupportedError(
                WHERE,
                f"too many nonzeros in row {row}, bank {bank}",
                f"at most {self.keep}",
                "use BalancedFormat.of to size the format",
            )
        if self.segment_cols % self.bank:
            self._share_values(values, indices)
        return {"values": values, "indices": indices}

    def _share_values(self, values: np.ndarray, indices: npt.NDArray[np.int32]) -> None:
        """Give slots of the last bank of each segment that name a column again a part of its value.

        Such a bank has no zero left where its neighbour fills the columns that they have in common.
        """
        last = slice(self.segment_banks - 1, None, self.segment_banks)
        index = self.slot_indices(indices)[:, last]
        again = np.zeros_like(index, np.bool_)
        again[..., 1:] = index[..., 1:] == index[..., :-1]
        if again.any():
            again = again.swapaxes(-1, -2).repeat(self.share, axis=0)
            part = values[:, last]
            halves(part, again)
            values[:, last] = part

    def decode(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """Return the matrix ``(rows, cols)`` of ``arrays``; the exact inverse of :meth:`encode`."""
        values = one_by_one(arrays["values"], self.depth)
        values = values.transpose(0, 3, 1, 2).reshape(-1, self.banks, self.keep)
        index = self._unshared(self.slot_indices(arrays["indices"]))
        starts = np.array([self.bank_start(b) for b in range(self.banks)])
        columns = (index + starts[:, None]).reshape(len(values), -1)
        row = np.arange(len(values))[:, None]
        # Slots of an overlapping window may name a neighbour's column, or share a value.
        flat = values.reshape(len(values), -1)
        return summed((len(values), self.cols), (row, columns), flat)[: self.rows]

    def slot_indices(self, words: np.ndarray) -> np.ndarray:
        """Return the in-bank indices ``(row_blocks / share, banks, lanes, keep)`` of words."""
        lanes = np.ascontiguousarray(words.transpose(0, 2, 1)).astype(np.uint32)
        per_word = self.words_per_bank * self.slots_per_word
        index = unpack_indices(
            lanes.view(np.int32), self.index_bits, self.words * self.slots_per_word, self.word_bits
        ).reshape(*lanes.shape[:2], self.words // self.words_per_bank, per_word)
        index = index[..., : self.banks_per_word * self.slots]
        index = index.reshape(*lanes.shape[:2], self.banks, self.slots).transpose(0, 2, 3, 1)
        part = np.arange(self.keep) * self.parts // self.keep
        return one_by_one(index, self.depth).swapaxes(-1, -2) + part * (self.bank // self.parts)

    def _pack(self, index: np.ndarray) -> np.ndarray:
        """Return words of indices in parts ``(row_blocks / share, banks, slots, wide lanes)``."""
        blocks, _, _, wide = index.shape
        shape = (blocks, wide, self.banks // self.banks_per_word, -1)
        lanes = index.transpose(0, 3, 1, 2).reshape(shape).astype(np.uint32)
        words = pack_indices(lanes, self.index_bits, self.word_bits)
        words = words.reshape(blocks, wide, -1).transpose(0, 2, 1)
        return np.ascontiguousarray(words.view(np.uint32).astype(self.index_dtype))

    def _unshared(self, index: np.ndarray) -> np.ndarray:
        """Repeat shared indices for each row that uses them."""
        shape = (self.row_blocks // self.share, 1, self.lanes, self.banks, self.keep)
        rows = index.transpose(0, 2, 1, 3).reshape(shape)
        wide = np.broadcast_to(rows, (shape[0], self.share, *shape[2:]))
        return wide.reshape(-1, self.banks, self.keep)
