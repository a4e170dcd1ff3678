"""Rows that take nothing of a bank in which every column of theirs is stored already.

Their slots must hold something: a zero where the matrix has none makes NaN of an infinity.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Idle:
    """A row that takes nothing of ``entries``; ``source`` is the last entry of which it did."""

    lane: int
    source: int
    entries: npt.NDArray[np.int64]


def idle_rows(
    matrix: np.ndarray,
    block: npt.NDArray[np.int64],
    columns: npt.NDArray[np.int64],
    taken: npt.NDArray[np.uint8],
    indices: npt.NDArray[np.uint8],
) -> Iterator[Idle]:
    """Yield the rows of ``matrix`` that take nothing of banks in which they have no zero.

    Parameters
    ----------
    block, columns
        Block of rows and first column of each entry ``(entries,)``.
    taken, indices
        As :meth:`~tvm_sparse.formats.sliding_banks.SlidingBanks.fill` returns them.
    """
    lanes = taken.shape[1]
    for lane in range(lanes):
        free = np.flatnonzero(taken[:, lane] == 0)
        row = block[free] * lanes + lane
        free, row = free[row < len(matrix)], row[row < len(matrix)]
        full = free[matrix[row, columns[free] + indices[free, 0, lane]] != 0]
        if len(full):
            last = np.where(taken[:, lane] > 0, np.arange(len(taken)), 0)
            sources, first = np.unique(np.maximum.accumulate(last)[full], return_index=True)
            for source, entries in zip(sources.tolist(), np.split(full, first[1:]), strict=True):
                yield Idle(lane, source, entries)


def parts_of(value: Any, count: int) -> np.ndarray:
    """Return ``count`` numbers whose sum is ``value``: halves, some of them halved again.

    The sum is exact; so is each number that is not too small for its type.
    """
    power = count.bit_length() - 1
    shares = np.full(count, 2.0**-power)
    shares[: 2 * (count - 2**power)] /= 2
    parts: np.ndarray = (np.float64(value) * shares).astype(value.dtype)
    return parts
