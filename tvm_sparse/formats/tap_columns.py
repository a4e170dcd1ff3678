"""Taps of depthwise convolutions in bytes: a few taps of a column side by side in each lane."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvm_sparse.formats.arrays import itemsize


@dataclass(frozen=True)
class TapColumnsFormat:
    """All taps of ``channels`` windows of ``taps`` ``(kh, kw)``, in words of ``depth`` rows.

    The words of a column follow each other, the last one filled up with zeros. ``shared`` rows of
    the output read the same words of input: for row ``r`` of them taps are stored ``r`` places
    later.

    :meth:`encode` gives ``values`` ``(shared * words * kw, channels * depth)`` in the matrix's
    dtype.
    """

    channels: int
    taps: tuple[int, int]
    depth: int
    shared: int = 1

    @property
    def words(self) -> int:
        """Words of a column."""
        return -(-(self.taps[0] + self.shared - 1) // self.depth)

    def nbytes(self, dtype: npt.DTypeLike = "int8") -> int:
        """Return the bytes of ``values`` of ``dtype``."""
        count = self.shared * self.words * self.taps[1] * self.channels * self.depth
        return count * itemsize(dtype)

    def encode(self, matrix: np.ndarray) -> dict[str, np.ndarray]:
        """Return the array of ``matrix`` ``(channels, kh * kw)``."""
        high, wide = self.taps
        taps = matrix.reshape(self.channels, high, wide).transpose(1, 2, 0)
        shape = self.shared, self.words * self.depth, wide, self.channels
        values = np.zeros(shape, matrix.dtype)
        for row in range(self.shared):
            values[row, row : row + high] = taps
        values = values.reshape(self.shared, self.words, self.depth, wide, self.channels)
        values = values.transpose(0, 1, 3, 4, 2)
        return {"values": np.ascontiguousarray(values).reshape(-1, self.channels * self.depth)}

    def decode(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """Return the matrix ``(channels, kh * kw)``; the exact inverse of :meth:`encode`."""
        high, wide = self.taps
        shape = self.shared, self.words, wide, self.channels, self.depth
        values = arrays["values"].reshape(shape)[0].transpose(2, 0, 3, 1)
        taps = values.reshape(self.channels, -1, wide)[:, :high]
        return np.ascontiguousarray(taps.reshape(self.channels, high * wide))
