"""Format of dense matrices: lanes of rows side by side, so that kernels read whole vectors."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvm_sparse.base.numerics import FLOAT32
from tvm_sparse.formats.arrays import aligned_empty, itemsize
from tvm_sparse.formats.bank_slots import one_by_one, side_by_side
from tvm_sparse.machine.vector import LANES


@dataclass(frozen=True)
class DenseFormat:
    """All values, ``lanes`` rows side by side; the last block of rows is padded with zeros.

    ``depth`` columns of a row lie side by side, for machines that multiply and add up several
    columns of a lane at once. Such groups lie within one of ``segments`` runs of columns; one that
    would reach past the last column begins earlier (at the first column, if there are fewer). It
    has half of the values of the columns that it shares with its neighbour, and zeros if they are
    integers: zero times infinity is NaN.

    :meth:`encode` gives ``values`` ``(row_blocks, groups, lanes * depth)`` in the matrix's dtype.
    """

    rows: int
    cols: int
    lanes: int = LANES
    segments: int = 1
    depth: int = 1

    @property
    def row_blocks(self) -> int:
        """Blocks of ``lanes`` rows."""
        return math.ceil(self.rows / self.lanes)

    @property
    def segment_cols(self) -> int:
        """Columns of one segment."""
        return self.cols // self.segments

    @property
    def segment_groups(self) -> int:
        """Groups of ``depth`` columns of one segment."""
        return math.ceil(self.segment_cols / self.depth)

    @property
    def groups(self) -> int:
        """Groups of all columns."""
        return self.segments * self.segment_groups

    def nbytes(self, dtype: npt.DTypeLike = FLOAT32.weight) -> int:
        """Return the bytes of ``values`` of ``dtype``."""
        return self.row_blocks * self.lanes * self.groups * self.depth * itemsize(dtype)

    def encode(self, matrix: np.ndarray) -> dict[str, np.ndarray]:
        """Return the array of ``matrix`` ``(rows, cols)``."""
        if self.depth > 1:
            matrix = self._grouped(matrix)
        columns = self.groups * self.depth
        values = aligned_empty((self.row_blocks, columns, self.lanes), matrix.dtype)
        whole, rest = divmod(self.rows, self.lanes)
        blocks = matrix[: self.rows - rest].reshape(whole, self.lanes, columns)
        values[:whole] = blocks.transpose(0, 2, 1)
        if rest:
            values[whole, :, :rest] = matrix[-rest:].T
            values[whole, :, rest:] = 0
        return {"values": side_by_side(values, self.depth)}

    def decode(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """Return the matrix ``(rows, cols)``; the exact inverse of :meth:`encode`."""
        values = one_by_one(arrays["values"], self.depth)
        columns = self.groups * self.depth
        matrix = values.transpose(0, 2, 1).reshape(-1, columns)[: self.rows]
        if self.depth == 1:
            return matrix.copy()
        stored, column = self._places()
        restored = np.empty((self.rows, self.cols), matrix.dtype)
        restored[:, column] = matrix[:, stored]
        for at, place, again in self._common(matrix.dtype):
            restored[:, place] = matrix[:, at] + matrix[:, again]
        return restored

    def _grouped(self, matrix: np.ndarray) -> np.ndarray:
        """Return ``matrix`` with the columns of each group side by side, as they are stored."""
        stored, column = self._places()
        grouped = np.zeros((self.rows, self.groups * self.depth), matrix.dtype)
        grouped[:, stored] = matrix[:, column]
        for at, place, again in self._common(matrix.dtype):
            grouped[:, again] = matrix[:, place] / 2
            grouped[:, at] = matrix[:, place] - grouped[:, again]
        return grouped

    def _common(self, dtype: np.dtype) -> list[tuple[int, int, int]]:
        """Return where floats of a column that two groups read are stored, it, and where again."""
        if dtype.kind in "iu" or self.segment_cols < self.depth:
            return []
        stored, column = self._places()
        left = -self.segment_cols % self.depth
        ends = np.arange(1, self.segments + 1) * self.segment_groups * self.depth - self.depth
        columns = np.arange(1, self.segments + 1) * self.segment_cols - self.depth
        place = dict(zip(column.tolist(), stored.tolist(), strict=True))
        return [
            (place[first + i], first + i, end + i)
            for first, end in zip(columns.tolist(), ends.tolist(), strict=True)
            for i in range(left)
        ]

    def _places(self) -> tuple[np.ndarray, np.ndarray]:
        """Return where each column is stored, and the column."""
        own = np.arange(self.segment_cols)
        group = own // self.depth
        start = np.minimum(group * self.depth, max(0, self.segment_cols - self.depth))
        place = group * self.depth + own - start
        segment = np.arange(self.segments)[:, None]
        stored = segment * self.segment_groups * self.depth + place
        return stored.ravel(), (segment * self.segment_cols + own).ravel()


@dataclass(frozen=True)
class DenseTapFormat:
    """All taps of a depthwise convolution, channels side by side.

    :meth:`encode` gives ``values`` ``(taps, channels)`` in the matrix's dtype.
    """

    channels: int
    taps: int

    def nbytes(self, dtype: npt.DTypeLike = FLOAT32.weight) -> int:
        """Return the bytes of ``values`` of ``dtype``."""
        return self.channels * self.taps * itemsize(dtype)

    def encode(self, matrix: np.ndarray) -> dict[str, np.ndarray]:
        """Return the array of ``matrix`` ``(channels, taps)``."""
        return {"values": np.ascontiguousarray(matrix.T)}

    def decode(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """Return the matrix ``(channels, taps)``; the exact inverse of :meth:`encode`."""
        return np.ascontiguousarray(arrays["values"].T)
