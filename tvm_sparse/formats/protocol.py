"""What every format can do."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from tvm_sparse.base.numerics import FLOAT32


class Format(Protocol):
    """How the values of a matrix are stored, of static extents."""

    def nbytes(self, dtype: npt.DTypeLike = FLOAT32.weight) -> int:
        """Return the bytes of all arrays for values of ``dtype``."""

    def encode(self, matrix: np.ndarray) -> dict[str, np.ndarray]:
        """Return the arrays of ``matrix`` by their names, in the order of parameters."""


class ExactFormat(Format, Protocol):
    """A format that stores the values themselves."""

    def decode(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """Return the matrix of ``arrays``; the exact inverse of :meth:`encode`."""
