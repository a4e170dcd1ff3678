"""How the weight of a layer lies in the tensor that a file has: transposed, one of several."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np


class Places:
    """For each element of a weight the place of it in the stored tensor, counted in its order."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = np.ascontiguousarray(array)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Places) and np.array_equal(self.array, other.array)

    def __hash__(self) -> int:
        return hash(self.array.tobytes())


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
    places
        Where each element is instead, if that is any other order.
    """

    transposed: bool = False
    direction: int | None = None
    gates: tuple[int, ...] = (0,)
    places: Places | None = None

    def turned(self) -> Layout:
        """Return the layout for a tensor that is transposed once more."""
        return replace(self, transposed=not self.transposed)

    def weight(self, stored: np.ndarray) -> np.ndarray:
        """Return the weight in ``stored``, a view of it where that is possible."""
        if self.places is not None:
            moved: np.ndarray = stored.reshape(-1)[self.places.array]
            return moved
        parts = self._parts(stored)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def write(self, weight: np.ndarray, stored: np.ndarray) -> None:
        """Write ``weight`` to its place in ``stored``."""
        if self.places is not None:
            stored.reshape(-1)[self.places.array] = weight
            return
        parts = self._parts(stored)
        for own, part in zip(parts, np.split(weight, len(parts)), strict=True):
            own[...] = part

    def _parts(self, stored: np.ndarray) -> list[np.ndarray]:
        matrix = stored if self.direction is None else stored[self.direction]
        matrix = matrix.T if self.transposed else matrix
        parts = np.split(matrix, len(self.gates))
        return [parts[gate] for gate in self.gates]
