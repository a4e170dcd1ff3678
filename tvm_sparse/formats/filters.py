"""Storage of filter-pruned matrices: the rows and columns that are left, dense."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.arrays import finite_matrix, itemsize
from tvm_sparse.numerics import FLOAT32
from tvm_sparse.patterns.filters import FilterPruned

WHERE = "filter-pruned format"


@dataclass(frozen=True)
class FilterPrunedFormat:
    """A physically smaller matrix of ``kept_rows`` rows and ``kept_inputs * taps`` columns.

    Arrays of :meth:`encode`:

    * ``values`` ``(kept_rows, kept_inputs * taps)``, the matrix's dtype.
    * ``outputs`` ``(kept_rows,)`` int32: row of the matrix of each row left, ascending.
    * ``inputs`` ``(kept_inputs,)`` int32: input (group of ``taps`` columns) of each input left.
    """

    rows: int
    cols: int
    kept_rows: int
    kept_inputs: int
    taps: int = 1

    def __post_init__(self) -> None:
        """Refuse extents that cannot be stored."""
        if self.taps < 1 or self.cols % self.taps:
            raise UnsupportedError(WHERE, f"{self.taps} taps", f"a divisor of {self.cols} columns")

    def nbytes(self, dtype: npt.DTypeLike = FLOAT32.weight) -> int:
        """Return the bytes of all arrays for values of ``dtype``."""
        values = self.kept_rows * self.kept_inputs * self.taps * itemsize(dtype)
        return values + 4 * (self.kept_rows + self.kept_inputs)

    @classmethod
    def of(cls, matrix: np.ndarray, pattern: FilterPruned | None = None) -> FilterPrunedFormat:
        """Return the format of the rows and inputs of ``matrix`` that are not zero."""
        taps = pattern.taps if pattern else 1
        outputs, inputs = _kept(matrix, taps)
        rows, cols = matrix.shape
        return cls(rows, cols, int(outputs.sum()), int(inputs.sum()), taps)

    def encode(self, matrix: np.ndarray) -> dict[str, np.ndarray]:
        """Return the arrays of ``matrix`` ``(rows, cols)``; raise if more is left than expected."""
        matrix = finite_matrix(matrix, (self.rows, self.cols), WHERE)
        outputs, inputs = (np.flatnonzero(kept) for kept in _kept(matrix, self.taps))
        if (len(outputs), len(inputs)) != (self.kept_rows, self.kept_inputs):
            raise UnsupportedError(
                WHERE,
                f"{len(outputs)} rows and {len(inputs)} inputs that are not zero",
                f"{self.kept_rows} and {self.kept_inputs}",
                "size the format with its method `of`",
            )
        cubes = matrix.reshape(self.rows, -1, self.taps)[np.ix_(outputs, inputs)]
        return {
            "values": np.ascontiguousarray(cubes.reshape(len(outputs), len(inputs) * self.taps)),
            "outputs": outputs.astype(np.int32),
            "inputs": inputs.astype(np.int32),
        }

    def decode(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """Return the matrix ``(rows, cols)``; the exact inverse of :meth:`encode`."""
        cubes = np.zeros((self.rows, self.cols // self.taps, self.taps), arrays["values"].dtype)
        shape = (self.kept_rows, self.kept_inputs, self.taps)
        cubes[np.ix_(arrays["outputs"], arrays["inputs"])] = arrays["values"].reshape(shape)
        return cubes.reshape(self.rows, self.cols)


def _kept(matrix: np.ndarray, taps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return which rows and which inputs hold a nonzero."""
    nonzero = (matrix != 0).reshape(len(matrix), -1, taps)
    return nonzero.any(axis=(1, 2)), nonzero.any(axis=(0, 2))
