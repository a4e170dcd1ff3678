"""Any format of integers, with what zero points add to each sum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvm_sparse.base.numerics import INTEGER_SUMS, bits_of
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.arrays import chunks
from tvm_sparse.formats.protocol import ExactFormat

WHERE = "integer weights"
LARGEST = 255
"""Magnitude of an activation less its zero point."""

MOST_MAGNITUDE = (2 ** (bits_of(INTEGER_SUMS) - 1) - 1) // LARGEST
"""Sum of the magnitudes of a row's weights up to which its sums stay in range."""


@dataclass(frozen=True)
class OffsetFormat:
    """``inner`` with ``offsets``: ``-zero`` times the sum of each of ``rows`` rows, int32.

    ``zero`` is the activation, as it is multiplied, that means zero: sums of activations times
    weights, with these added, are the sums of what the activations mean.
    """

    inner: ExactFormat
    rows: int
    zero: int

    def nbytes(self, dtype: npt.DTypeLike = "int8") -> int:
        """Return the bytes of all arrays for values of ``dtype``."""
        return int(self.inner.nbytes(dtype)) + self.rows * bits_of(INTEGER_SUMS) // 8

    def encode(self, matrix: np.ndarray) -> dict[str, np.ndarray]:
        """Return the arrays of ``matrix``; refuse rows whose sums may leave the range of int32."""
        parts = [part.astype(np.int64) for _, part in chunks(matrix)]
        largest = np.concatenate([np.abs(part).sum(1) for part in parts])
        if int(largest.max(initial=0)) > MOST_MAGNITUDE:
            row = int(largest.argmax())
            raise UnsupportedError(
                WHERE,
                f"magnitudes that add up to {largest[row]} in row {row}",
                f"at most {MOST_MAGNITUDE}: sums of products must fit {INTEGER_SUMS}",
                "keep this layer in floats",
            )
        sums = np.concatenate([part.sum(1) for part in parts])
        return {
            **self.inner.encode(matrix),
            "offsets": (-self.zero * sums).astype(INTEGER_SUMS),
        }

    def decode(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """Return the matrix of ``arrays``; the exact inverse of :meth:`encode`."""
        return self.inner.decode(arrays)
