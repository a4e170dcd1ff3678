"""Format of 3x3 kernels as Winograd's minimal filtering multiplies them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvm_sparse.base.numerics import FLOAT32
from tvm_sparse.formats.arrays import aligned_empty, itemsize
from tvm_sparse.machine.vector import LANES

TILE = 4
"""Inputs along each axis that make two outputs with a kernel of three."""

KERNEL = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
"""``G`` of F(2, 3): what a kernel of three becomes (Lavin and Gray, 2016, section 4.1)."""


@dataclass(frozen=True)
class WinogradFormat:
    """Transformed 3x3 kernels ``G g G^T``, ``lanes`` features side by side.

    :meth:`encode` gives ``values`` ``(features / lanes, 4, 4, columns, lanes)`` in the matrix's
    dtype, rounded once: 16 values for 9 weights.
    """

    features: int
    columns: int
    lanes: int = LANES

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of ``values``."""
        return self.features // self.lanes, TILE, TILE, self.columns, self.lanes

    def nbytes(self, dtype: npt.DTypeLike = FLOAT32.weight) -> int:
        """Return the bytes of ``values`` of ``dtype``."""
        return self.features * TILE * TILE * self.columns * itemsize(dtype)

    def encode(self, matrix: np.ndarray) -> dict[str, np.ndarray]:
        """Return the array of ``matrix`` ``(features, 9 * columns)``, columns in ``hwi`` order."""
        values = aligned_empty(self.shape, matrix.dtype)
        kernels = matrix.reshape(-1, self.lanes, 3, 3, self.columns)
        for block, kernel in zip(values, kernels, strict=True):
            rows = np.einsum("ai,lijc->lajc", KERNEL, kernel)
            block[:] = np.einsum("bj,lajc->abcl", KERNEL, rows)
        return {"values": values}
