"""Cover the nonzeros of a few rows by banks of columns that begin where something is left."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvm_sparse.base.native import library

Bits = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class SlidingBanks:
    """Banks of ``bank`` columns for blocks of ``lanes`` rows, found from left to right.

    A bank begins at the first column that a row of the block has not stored yet. That is rounded
    down to a multiple of 16, where vectors cross no cache line. A bank lies within one of the spans
    of ``span`` columns. Each row takes its next ``keep`` nonzeros as far as they lie in the bank.
    With 75 % random zeros 16 rows thus store 1.1 values a nonzero with 4 of 64 columns. Banks side
    by side, each filled to its fullest row, store 1.5.
    """

    cols: int
    keep: int
    bank: int
    span: int
    lanes: int

    def counts(self, bits: Bits) -> npt.NDArray[np.int64]:
        """Return how many banks each block of the rows ``bits`` takes."""
        found = np.empty(-(-len(bits) // self.lanes), np.int64)
        library().sliding_counts(bits, *self._extents, found)
        return found

    def fill(
        self, bits: Bits, banks: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
        """Return the first column of each of ``banks``, block after block, and what rows take.

        That are numbers of values ``(banks, lanes)``, and their columns in the bank ``(banks, keep,
        lanes)``. What is not taken has a column of zeros, or if there is none the last one taken.
        """
        columns = np.empty(banks, np.int64)
        taken = np.empty((banks, self.lanes), np.uint8)
        indices = np.zeros((banks, self.keep, self.lanes), np.uint8)
        library().sliding_banks(bits, *self._extents, columns, taken, indices)
        return columns, taken, indices

    @property
    def _extents(self) -> tuple[int, ...]:
        return self.cols, self.keep, self.bank, self.span, self.lanes


def nonzero_bits(matrix: np.ndarray) -> Bits:
    """Return a bit for each value of ``matrix``, column c in bit ``c % 64`` of word ``c // 64``."""
    packed = np.packbits(matrix != 0, axis=1, bitorder="little")
    words = np.pad(packed, [(0, 0), (0, -packed.shape[1] % 8)])
    return np.ascontiguousarray(words).view(np.uint64)
