"""How the weight of a layer lies in the tensor that a file has: transposed, one of several."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Layout:
    """The way from a stored tensor to a weight with its outputs first, and back.

    Parameters
    ----------
    transposed
        The stored matrix is (inputs, outputs).
    direction
        Which of the stored matrices of a recurrent layer it is.
    gates
        Where the stored rows have each of the equal parts of the weight's rows, in order.
    """

    transposed: bool = False
    direction: int | None = None
    gates: tuple[int, ...] = (0,)

    def turned(self) -> Layout:
        """Return the layout for a tensor that is transposed once more."""
        return replace(self, transposed=not self.transposed)

    def weight(self, stored: np.ndarray) -> np.ndarray:
        """Return the weight in ``stored``, a view of it where that is possible."""
        parts = self._parts(stored)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def write(self, weight: np.ndarray, stored: np.ndarray) -> None:
        """Write ``weight`` to its place in ``stored``."""
        parts = self._parts(stored)
        for own, part in zip(parts, np.split(weight, len(parts)), strict=True):
            own[...] = part

    def _parts(self, stored: np.ndarray) -> list[np.ndarray]:
        matrix = stored if self.direction is None else stored[self.direction]
        matrix = matrix.T if self.transposed else matrix
        parts = np.split(matrix, len(self.gates))
        return [parts[gate] for gate in self.gates]
