"""Format of block-sparse matrices for engines that multiply tiles: only steps with a nonzero."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvm_sparse.base.numerics import FLOAT32
from tvm_sparse.formats.compressed_rows import CompressedRowsFormat


@dataclass(frozen=True)
class KeptStepsFormat:
    """``blocks``, whose groups of rows share runs of columns, with places in place of columns.

    A place is where a run of activations begins: lines of the input below the first one, and bytes
    behind that line's beginning. A matrix has ``columns`` of each tap; ``wide`` taps side by side
    make a line of taps. Taps of a line are ``pitch`` bytes apart, activations ``size`` bytes.

    Arrays of :meth:`encode`: ``values`` and ``starts`` of ``blocks``, and between them ``places``
    ``(entries, 2)`` int32.
    """

    blocks: CompressedRowsFormat
    columns: int
    wide: int
    pitch: int
    size: int

    def nbytes(self, dtype: npt.DTypeLike = FLOAT32.weight) -> int:
        """Return the bytes of all arrays for values of ``dtype``."""
        b = self.blocks
        return b.nbytes(dtype) + b.entries * (8 - b.column_dtype.itemsize)

    def encode(self, matrix: np.ndarray) -> dict[str, np.ndarray]:
        """Return the arrays of ``matrix`` ``(rows, cols)``; raise if it has other nonzero runs."""
        arrays = self.blocks.encode(matrix)
        tap, column = np.divmod(arrays["columns"].astype(np.int64), self.columns)
        line, inside = np.divmod(tap, self.wide)
        places = np.stack([line, inside * self.pitch + column * self.size], axis=1)
        return {
            "values": arrays["values"],
            "places": places.astype(np.int32),
            "starts": arrays["starts"],
        }

    def decode(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """Return the matrix ``(rows, cols)``; the exact inverse of :meth:`encode`."""
        line, behind = arrays["places"].T.astype(np.int64)
        inside, column = np.divmod(behind, self.pitch)
        columns = (line * self.wide + inside) * self.columns + column // self.size
        columns = columns.astype(self.blocks.column_dtype)
        return self.blocks.decode({**arrays, "columns": columns})
