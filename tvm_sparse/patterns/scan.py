"""One native pass over a weight matrix, and the counts that every detector asks for."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tvm_sparse.base.native import as_unsigned, bit_masks, library
from tvm_sparse.errors import InputError
from tvm_sparse.machine.vector import LANES

T = TypeVar("T")

SAMPLED_WORDS = 2**14
"""Screening reads about as many 64-column words of the bit plane; verdicts read all of it."""


class Scan:
    """The zeros of one weight matrix as a bit plane with counts; built in one native pass.

    Parameters
    ----------
    weight
        ``(rows, cols)``, fp64, fp32, fp16, bf16, integers or flags; neither NaN nor infinite.
    taps
        Columns of one input channel (``kh * kw`` of a convolution in ``ihw`` order, else 1).
    name
        What errors call the weight.
    shape
        Shape of the weight before it was lowered in ``ihw`` order, for positions in errors.
    """

    def __init__(
        self,
        weight: npt.ArrayLike,
        *,
        taps: int = 1,
        name: str = "weight",
        shape: tuple[int, ...] | None = None,
    ) -> None:
        self.weight = _matrix(np.asarray(weight), name)
        self.taps = taps
        self.rows, self.cols = self.weight.shape
        self.bits = np.empty((self.rows, -(-self.cols // 64)), np.uint64)
        self.row_count, self.row_pair = (np.empty(self.rows, np.int64) for _ in range(2))
        self.col_count, self.col_pair = (np.empty(self.cols, np.int64) for _ in range(2))
        masks = bit_masks(self.weight.dtype, name)
        counts = self.row_count, self.row_pair, self.col_count, self.col_pair
        bad = library().scan_plane(as_unsigned(self.weight), *masks, self.bits, *counts)
        if bad >= 0:
            where = tuple(int(i) for i in np.unravel_index(bad, shape or self.weight.shape))
            raise InputError(
                name,
                f"{self.weight.flat[bad]} at {where} of shape {shape or self.weight.shape}",
                "finite weights",
                "repair the checkpoint",
            )
        self.nonzeros = int(self.row_count.sum())
        self._found: dict[Hashable, Any] = {}
        self._totals: dict[tuple[int, int, int | None], tuple[int, int]] = {}
        self._counts: dict[tuple[int, int], npt.NDArray[np.int32]] = {}

    @property
    def cells(self) -> int:
        """Number of weights."""
        return self.rows * self.cols

    @property
    def sparsity(self) -> float:
        """Fraction of zeros."""
        return 1 - self.nonzeros / self.cells

    @property
    def itemsize(self) -> int:
        """Bytes of one weight."""
        return self.weight.dtype.itemsize

    @property
    def step(self) -> int:
        """Every ``step``-th row is read for screening."""
        return max(1, math.ceil(self.rows * self.bits.shape[1] / SAMPLED_WORDS))

    def nonzero(self) -> npt.NDArray[np.bool_]:
        """Return the flags of nonzeros ``(rows, cols)``."""
        return np.not_equal(self.weight, 0)

    @cached_property
    def bank_sweep(self) -> npt.NDArray[np.int64]:
        """Per bank size: banks, least, most, count that 1 % exceed, how many; a row sample."""
        summary = np.zeros((self.cols + 1, 5), np.int64)
        library().bank_sweep(self.bits, self.cols, self.step, summary)
        return summary

    def bank_histogram(self, bank: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return how many whole banks, and how many short last banks, hold each count."""
        whole, tail = np.empty(bank + 1, np.int64), np.empty(bank + 1, np.int64)
        library().bank_histogram(self.bits, self.cols, bank, 1, whole, tail)
        return whole, tail

    def banks_beyond(self, bank: int, keep: int) -> tuple[tuple[int, int] | None, int]:
        """Return row and number of the first bank with more than ``keep`` nonzeros.

        The second result is the number of groups of :data:`LANES` rows with such a bank.
        """
        found = np.empty(2, np.int64)
        library().banks_beyond(self.bits, self.cols, bank, keep, LANES, found)
        first, groups = found.tolist()
        return None if first < 0 else divmod(first, -(-self.cols // bank)), groups

    def block_totals(self, rows: int, cols: int, *, top: int | None = None) -> tuple[int, int]:
        """Return how many blocks hold a nonzero and their weights, in the ``top`` rows."""
        if (rows, cols, top) not in self._totals:
            totals = np.empty(2, np.int64)
            library().block_totals(self.bits[:top], self.cols, rows, cols, totals)
            self._totals[rows, cols, top] = int(totals[0]), int(totals[1])
        return self._totals[rows, cols, top]

    def block_counts(self, rows: int, cols: int) -> npt.NDArray[np.int32]:
        """Return the nonzeros of every block ``(ceil(rows / R), ceil(cols / S))``."""
        if (rows, cols) not in self._counts:
            counts = np.empty((-(-self.rows // rows), -(-self.cols // cols)), np.int32)
            library().block_counts(self.bits, self.cols, rows, cols, counts)
            self._counts[rows, cols] = counts
        return self._counts[rows, cols]

    def once(self, analysis: Callable[[Scan], T]) -> T:
        """Return ``analysis(self)``, computed once."""
        if analysis not in self._found:
            self._found[analysis] = analysis(self)
        found: T = self._found[analysis]
        return found

    def visible_moments(
        self, rows: int, cols: int, banks: npt.ArrayLike, step: int = 1
    ) -> npt.NDArray[np.float64]:
        """Return number of banks, sum v, sum c, sum c*c/v for each size in ``banks``.

        A bank has v weights in blocks ``rows`` x ``cols`` that hold a nonzero, c of them nonzero.
        """
        sizes = np.ascontiguousarray(banks, np.int64)
        sums = np.empty((len(sizes), 4))
        library().visible_moments(self.bits, self.cols, rows, cols, step, sizes, sums)
        return sums


def _matrix(weight: np.ndarray, name: str) -> np.ndarray:
    """Return ``weight`` contiguous and writable, as the native library wants it."""
    if weight.ndim != 2 or 0 in weight.shape:
        raise InputError(name, f"shape {weight.shape}", "a matrix (rows, cols) with weights in it")
    return np.require(weight, requirements=["C", "W"])
