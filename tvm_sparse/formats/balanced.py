"""Storage of balanced matrices: a fixed number of values a bank, lanes of rows side by side."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tvm_sparse.errors import UnsupportedError

WORD_BITS = 32


@dataclass(frozen=True)
class BalancedFormat:
    """Every bank of ``bank`` columns stores ``keep`` values and their in-bank indices.

    ``lanes`` rows lie side by side, so that one vector holds the same slot of ``lanes`` rows;
    ``share`` such row blocks have common indices. A bank that would reach past the last column is
    moved left until it ends there, so every bank can be read whole; the columns it has in common
    with its neighbour stay with the neighbour. ``segments`` such runs of ``cols / segments``
    columns follow one another (the taps of a convolution in ``hwi`` order), and no bank crosses a
    run.

    Arrays of :meth:`encode`:

    * ``values`` ``(row_blocks, banks, keep, lanes)``, the matrix's dtype; unused slots are zero.
    * ``indices`` ``(row_blocks / share, words, lanes)`` int32; a word holds the ``index_bits`` wide
      indices of ``banks_per_word`` banks, lowest bits first (or a part of one bank, when one bank
      needs ``words_per_bank`` of them).
    """

    rows: int
    cols: int
    keep: int
    bank: int = 16
    lanes: int = 16
    share: int = 1
    segments: int = 1

    def __post_init__(self) -> None:
        """Refuse extents that cannot be stored."""
        if self.cols % self.segments or self.segment_cols < self.bank:
            raise UnsupportedError(
                "balanced format",
                f"{self.cols} columns in {self.segments} segments",
                f"segments of at least {self.bank} columns",
                "keep this layer dense",
            )
        if not 1 <= self.keep <= self.bank:
            raise UnsupportedError(
                "balanced format", f"keep = {self.keep}", f"1 to {self.bank} (the bank)"
            )

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
    def index_bits(self) -> int:
        """Bits of an in-bank index."""
        return max(1, (self.bank - 1).bit_length())

    @property
    def slots_per_word(self) -> int:
        """Indices that fit a word."""
        return WORD_BITS // self.index_bits

    @property
    def words_per_bank(self) -> int:
        """Words that one bank needs (1 unless ``keep`` exceeds ``slots_per_word``)."""
        return math.ceil(self.keep / self.slots_per_word)

    @property
    def banks_per_word(self) -> int:
        """Banks that share a word: the largest divisor of ``segment_banks`` that fits."""
        fit = max(1, self.slots_per_word // self.keep)
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

    def nbytes(self, dtype: str = "float32") -> int:
        """Return the bytes of all arrays for values of ``dtype``."""
        size = 2 if dtype in ("bfloat16", "float16") else np.dtype(dtype).itemsize
        values = self.row_blocks * self.banks * self.keep * self.lanes * size
        return values + self.row_blocks // self.share * self.words * self.lanes * 4

    @classmethod
    def of(
        cls, matrix: np.ndarray, *, lanes: int = 16, share: int = 1, segments: int = 1
    ) -> BalancedFormat:
        """Return the smallest bank-16 format that holds every nonzero of ``matrix``."""
        rows, cols = matrix.shape
        probe = cls(rows, cols, keep=1, lanes=lanes, share=share, segments=segments)
        used = probe._shared(probe._windows(matrix) != 0).sum(-1)
        keep = max(1, int(used.max(initial=0)))
        return cls(rows, cols, keep, lanes=lanes, share=share, segments=segments)

    def encode(self, matrix: np.ndarray) -> dict[str, np.ndarray]:
        """Return the arrays of ``matrix`` ``(rows, cols)``; raise if a bank holds too much."""
        banks = self._windows(matrix)
        used = self._shared(banks != 0)
        count = used.sum(-1)
        if count.max(initial=0) > self.keep:
            row, bank = (int(i) for i in np.argwhere(count > self.keep)[0])
            raise UnsupportedError(
                "balanced format",
                f"{count[row, bank]} nonzeros in row {row}, bank {bank}",
                f"at most {self.keep}",
                "use BalancedFormat.of to size the format",
            )
        order = np.argsort(~used, axis=-1, kind="stable")[..., : self.keep]
        order.sort(axis=-1)
        order = order.astype(np.uint32)
        lanes = (self.row_blocks, self.lanes, self.banks, self.keep)
        values = np.take_along_axis(banks, self._unshared(order).astype(np.int64), axis=-1)
        return {
            "values": np.ascontiguousarray(values.reshape(lanes).transpose(0, 2, 3, 1)),
            "indices": self._pack(order),
        }

    def decode(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """Return the matrix ``(rows, cols)`` of ``arrays``; the exact inverse of :meth:`encode`."""
        values = arrays["values"].transpose(0, 3, 1, 2).reshape(-1, self.banks, self.keep)
        index = self._unshared(self._unpack(arrays["indices"]))
        starts = np.array([self.bank_start(b) for b in range(self.banks)])
        columns = (index + starts[:, None]).reshape(len(values), -1)
        matrix = np.zeros((len(values), self.cols), values.dtype)
        row = np.arange(len(values))[:, None]
        # Slots of an overlapping window may name a neighbour's column, with the value zero.
        np.add.at(matrix, (row, columns), values.reshape(len(values), -1))
        return matrix[: self.rows]

    def _windows(self, matrix: np.ndarray) -> np.ndarray:
        """Return ``(row_blocks * lanes, banks, bank)``: each bank's own nonzeros in its window."""
        padded = np.zeros((self.row_blocks * self.lanes, self.cols), matrix.dtype)
        padded[: self.rows] = matrix
        starts = np.array([self.bank_start(b) for b in range(self.banks)])
        windows = padded[:, starts[:, None] + np.arange(self.bank)]
        overlap = self.segment_banks * self.bank - self.segment_cols
        if overlap:
            windows[:, self.segment_banks - 1 :: self.segment_banks, :overlap] = 0
        return windows

    def _shared(self, per_row: np.ndarray) -> np.ndarray:
        """Union the nonzero flags of the row blocks that share indices."""
        shape = (self.row_blocks // self.share, self.share, self.lanes, *per_row.shape[1:])
        return per_row.reshape(shape).any(1).reshape(-1, *per_row.shape[1:])

    def _unshared(self, index: np.ndarray) -> np.ndarray:
        """Repeat shared indices for each row that uses them."""
        shape = (self.row_blocks // self.share, 1, self.lanes, *index.shape[1:])
        wide = np.broadcast_to(index.reshape(shape), (shape[0], self.share, *shape[2:]))
        return wide.reshape(-1, *index.shape[1:])

    def _pack(self, index: np.ndarray) -> np.ndarray:
        """Pack ``(rows', banks, keep)`` in-bank indices into int32 words."""
        slots = self._slots()
        words = np.zeros((len(index), self.words, len(slots)), np.uint32)
        flat = index.reshape(len(index), self.words // self.words_per_bank, -1)
        whole = self.words_per_bank * len(slots)
        flat = np.pad(flat, ((0, 0), (0, 0), (0, whole - flat.shape[-1])))
        words[:] = flat.reshape(words.shape)
        packed = np.bitwise_or.reduce(words << slots, axis=-1)
        packed = packed.reshape(-1, self.lanes, self.words).transpose(0, 2, 1)
        return np.ascontiguousarray(packed).view(np.int32)

    def _unpack(self, packed: np.ndarray) -> np.ndarray:
        """Undo :meth:`_pack`."""
        words = packed.view(np.uint32).transpose(0, 2, 1).reshape(-1, self.words, 1)
        index = (words >> self._slots()) & np.uint32((1 << self.index_bits) - 1)
        index = index.reshape(len(index), self.words // self.words_per_bank, -1)
        used = self.banks_per_word * self.keep
        return index[..., :used].reshape(len(index), self.banks, self.keep).astype(np.int64)

    def _slots(self) -> np.ndarray:
        """Return the shift of each slot of a word."""
        used = min(self.banks_per_word * self.keep, self.slots_per_word)
        return (self.index_bits * np.arange(used)).astype(np.uint32)
