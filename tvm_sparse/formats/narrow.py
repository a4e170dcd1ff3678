"""Any format with its values in a type of fewer bits, where that loses nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvm_sparse.base.numerics import FLOAT32, bits_of, is_float
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.arrays import chunks
from tvm_sparse.formats.protocol import ExactFormat

WHERE = "narrow values"
WIDE = FLOAT32.weight


@dataclass(frozen=True)
class NarrowFormat:
    """``inner`` with its array ``values`` as ``stored``, a type of floats of fewer than 32 bits.

    Values that NumPy alone does not know (``bfloat16``, ``float8_e4m3fn``) are unsigned integers
    with their bits. Only for matrices whose every value is exact in ``stored``: networks trained or
    saved so. Parts of values that several slots share may be rounded, to the smallest ones. Sums
    stay fp32, so results are those of fp32 format.
    """

    inner: ExactFormat
    stored: str

    def __post_init__(self) -> None:
        """Refuse other types."""
        if not is_float(self.stored) or bits_of(self.stored) >= bits_of(WIDE):
            raise UnsupportedError(WHERE, f"'{self.stored}'", f"floats smaller than {WIDE}")

    def nbytes(self, dtype: npt.DTypeLike = FLOAT32.weight) -> int:
        """Return the bytes of all arrays, whatever ``dtype``."""
        return int(self.inner.nbytes(self.stored))

    def encode(self, matrix: np.ndarray) -> dict[str, np.ndarray]:
        """Return the arrays of ``matrix``; raise if a value is not exact in ``stored``."""
        if not exact(matrix, self.stored):
            raise UnsupportedError(
                WHERE, f"values that {self.stored} rounds", "exact ones", f"store them as {WIDE}"
            )
        arrays = self.inner.encode(matrix)
        return {**arrays, "values": narrow(arrays["values"], self.stored)}

    def decode(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """Return the matrix of ``arrays`` as float32; the exact inverse of :meth:`encode`."""
        wide = widen(arrays["values"], self.stored)
        return np.asarray(self.inner.decode({**arrays, "values": wide}))


def exact(matrix: np.ndarray, stored: str) -> bool:
    """Return whether ``stored`` holds every value of the fp32 ``matrix`` without rounding."""
    with np.errstate(over="ignore"):
        parts = (part for _, part in chunks(matrix))
        return all((widen(narrow(part, stored), stored) == part).all() for part in parts)


def narrow(values: np.ndarray, stored: str) -> np.ndarray:
    """Return fp32 ``values`` in ``stored``; by their bits if NumPy alone does not know it."""
    found = np.ascontiguousarray(values, WIDE).astype(stored)
    return found if _known(stored) else found.view(f"u{found.dtype.itemsize}")


def widen(values: np.ndarray, stored: str) -> np.ndarray:
    """Undo :func:`narrow`."""
    return (values if _known(stored) else values.view(stored)).astype(WIDE)


def _known(stored: str) -> bool:
    """Whether NumPy alone knows the type."""
    return stored == "float16"
