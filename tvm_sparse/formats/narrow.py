"""Any format with its values in half precision, where that loses nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvm_sparse.base.numerics import FLOAT32, HALVES, bits_of
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.arrays import chunks
from tvm_sparse.formats.protocol import ExactFormat

WHERE = "half-precision values"
WIDE = FLOAT32.weight
HALF_BITS = bits_of(HALVES[0])


@dataclass(frozen=True)
class NarrowFormat:
    """``inner`` with its array ``values`` as ``stored``: ``float16``, or ``bfloat16`` as uint16.

    Only for matrices whose every value is exact in ``stored``: networks trained or saved in half
    precision. Sums stay fp32, so results are those of fp32 format.
    """

    inner: ExactFormat
    stored: str

    def __post_init__(self) -> None:
        """Refuse other types."""
        if self.stored not in HALVES:
            raise UnsupportedError(WHERE, f"'{self.stored}'", " or ".join(HALVES))

    def nbytes(self, dtype: npt.DTypeLike = FLOAT32.weight) -> int:
        """Return the bytes of all arrays; values take two each, whatever ``dtype``."""
        return int(self.inner.nbytes("float16"))

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
    """Return fp32 ``values`` in ``stored``; bfloat16 by its bits, cut off."""
    if stored == "float16":
        return values.astype(np.float16)
    bits = np.ascontiguousarray(values, WIDE).view(np.uint32)
    return (bits >> np.uint32(HALF_BITS)).astype(np.uint16)


def widen(values: np.ndarray, stored: str) -> np.ndarray:
    """Undo :func:`narrow`."""
    if stored == "float16":
        return values.astype(WIDE)
    return (values.astype(np.uint32) << np.uint32(HALF_BITS)).view(WIDE)
