"""What is remembered of a layer's inputs: products of columns, not the inputs themselves."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from torch import Tensor

from tvm_sparse.errors import InputError

Kept = TypeVar("Kept")


class InputStatistics:
    """Sums over all calibration data of one layer, in float64.

    ``gram`` is ``X^T X`` of the inputs ``X`` in the network pruned so far, ``cross`` is ``D^T X``
    with the inputs ``D`` in the dense network, both ``(parts, columns, columns)``. ``rows`` counts
    the rows of ``X``.
    """

    def __init__(self) -> None:
        self.gram: Tensor | None = None
        self.cross: Tensor | None = None
        self.rows = 0
        self._kept: dict[Hashable, Any] = {}

    def add(self, name: str, inputs: Tensor, dense: Tensor) -> None:
        """Count the inputs ``(parts, rows, columns)`` of layer ``name``, and the dense network's.

        Raises
        ------
        InputError
            One is not finite.
        """
        inputs, dense = inputs.float(), dense.float()
        gram = (inputs.mT @ inputs).double()
        cross = (dense.mT @ inputs).double()
        if not (gram.isfinite().all() and cross.isfinite().all()):
            raise InputError(
                f"layer '{name}'",
                "its input on the calibration data holds NaN or infinite values",
                "finite activations",
                "check the calibration batches, and the model's outputs on them",
            )
        self.gram = gram if self.gram is None else self.gram + gram
        self.cross = cross if self.cross is None else self.cross + cross
        self.rows += inputs.shape[1]

    def kept(self, key: Hashable, make: Callable[[], Kept]) -> Kept:
        """Return what was made of the sums under ``key``: layers that share inputs share it, too.

        Nothing is added any more.
        """
        if key not in self._kept:
            self._kept[key] = make()
        found: Kept = self._kept[key]
        return found

    def matrices(self) -> tuple[Tensor, Tensor]:
        """Return ``gram`` and ``cross``."""
        assert self.gram is not None and self.cross is not None
        return self.gram, self.cross
