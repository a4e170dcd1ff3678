"""Compressed rows of a convolution whose entries say where their activations lie."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvm_sparse.base.numerics import FLOAT32
from tvm_sparse.formats.compressed_rows import CompressedRowsFormat


@dataclass(frozen=True)
class ShiftedRowsFormat:
    """``inner`` with its array ``columns`` as ``places``, int32: that of an entry's first column.

    Columns are in ``hwi`` order. Channel ``c`` of tap ``t`` is at ``c * step + taps[t]``, where
    ``taps`` are distinct and below ``step``.
    """

    inner: CompressedRowsFormat
    step: int
    taps: tuple[int, ...]

    @property
    def channels(self) -> int:
        """Columns of a tap."""
        return self.inner.cols // len(self.taps)

    def nbytes(self, dtype: npt.DTypeLike = FLOAT32.weight) -> int:
        """Return the bytes of all arrays for values of ``dtype``."""
        wider = np.dtype(np.int32).itemsize - self.inner.column_dtype.itemsize
        return self.inner.nbytes(dtype) + self.inner.entries * wider

    def encode(self, matrix: np.ndarray) -> dict[str, np.ndarray]:
        """Return the arrays of ``matrix`` ``(rows, cols)``; raise if it has other nonzero runs."""
        arrays = self.inner.encode(matrix)
        tap, channel = np.divmod(self._first(arrays) + arrays["columns"], self.channels)
        places = channel * self.step + np.asarray(self.taps)[tap]
        return _replaced(arrays, "columns", "places", places.astype(np.int32))

    def decode(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """Return the matrix ``(rows, cols)`` of ``arrays``; the exact inverse of :meth:`encode`."""
        channel, place = np.divmod(arrays["places"], self.step)
        order = np.argsort(self.taps)
        tap = order[np.searchsorted(self.taps, place, sorter=order)]
        columns = tap * self.channels + channel - self._first(arrays)
        columns = columns.astype(self.inner.column_dtype)
        return self.inner.decode(_replaced(arrays, "places", "columns", columns))

    def _first(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """Return the first column of each entry's tile."""
        s, starts = self.inner, arrays["starts"]
        slot = np.repeat(np.arange(s.slots), np.diff(starts))
        first = np.zeros(s.entries, np.int64)
        first[: len(slot)] = slot // s.tile_groups % s.col_tiles * s.tile_cols
        return first


def _replaced(
    arrays: dict[str, np.ndarray], old: str, new: str, value: np.ndarray
) -> dict[str, np.ndarray]:
    """Return ``arrays`` in their order with another array, under another name, for ``old``."""
    return {new if k == old else k: value if k == old else v for k, v in arrays.items()}
