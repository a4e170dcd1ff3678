"""The order of columns that were transposed a few rows and a register at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvm_sparse.machine.vector import LANES, QUAD_BITS, VECTOR_BITS


@dataclass(frozen=True)
class Squares:
    """Where the columns of a tile of :data:`LANES` input rows lie, after their transposition.

    The ``columns`` of each tap are cut into squares as wide as a register of ``bits`` a column (of
    few columns: :data:`LANES` wide); the last one begins earlier where it would reach beyond. A
    register that was transposed within its quads of 128 bits has ``high`` rows of one column in
    each quad: column ``high * quad + i`` in register ``i``. Registers follow one another, first
    those of the first ``high`` rows.
    """

    columns: int
    bits: int

    @property
    def wide(self) -> int:
        """Columns of a square."""
        wide = VECTOR_BITS // self.bits
        return wide if self.columns >= wide else LANES

    @property
    def high(self) -> int:
        """Rows of a column that lie side by side."""
        return QUAD_BITS // self.bits

    @property
    def count(self) -> int:
        """Squares of a tap."""
        return -(-self.columns // self.wide)

    def place(self, column: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the number of the first element of each column, of all taps."""
        tap, inside = np.divmod(column, self.columns)
        square = inside // self.wide
        inside = inside - np.minimum(square * self.wide, self.columns - self.wide)
        first = (tap * self.count + square) * self.wide * LANES
        quad, register = np.divmod(inside, self.high)
        place: npt.NDArray[np.int64] = first + register * self.wide + quad * self.high
        return place
