"""Storage of dense matrices: lanes of rows side by side, so that kernels read whole vectors."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvm_sparse.formats.arrays import aligned_empty, itemsize
from tvm_sparse.machine.vector import LANES
from tvm_sparse.numerics import FLOAT32


@dataclass(frozen=True)
class DenseFormat:
    """All values, ``lanes`` rows side by side; the last block of rows is padded with zeros.

    :meth:`encode` gives ``values`` ``(row_blocks, cols, lanes)`` in the matrix's dtype.
    """

    rows: int
    cols: int
    lanes: int = LANES

    @property
    def row_blocks(self) -> int:
        """Blocks of ``lanes`` rows."""
        return math.ceil(self.rows / self.lanes)

    def nbytes(self, dtype: npt.DTypeLike = FLOAT32.weight) -> int:
        """Return the bytes of ``values`` of ``dtype``."""
        return self.row_blocks * self.lanes * self.cols * itemsize(dtype)

    def encode(self, matrix: np.ndarray) -> dict[str, np.ndarray]:
        """Return the array of ``matrix`` ``(rows, cols)``."""
        values = aligned_empty((self.row_blocks, self.cols, self.lanes), matrix.dtype)
        whole, rest = divmod(self.rows, self.lanes)
        blocks = matrix[: self.rows - rest].reshape(whole, self.lanes, self.cols)
        values[:whole] = blocks.transpose(0, 2, 1)
        if rest:
            values[whole, :, :rest] = matrix[-rest:].T
            values[whole, :, rest:] = 0
        return {"values": values}

    def decode(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """Return the matrix ``(rows, cols)``; the exact inverse of :meth:`encode`."""
        return arrays["values"].transpose(0, 2, 1).reshape(-1, self.cols)[: self.rows].copy()


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
