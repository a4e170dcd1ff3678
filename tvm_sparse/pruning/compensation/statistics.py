"""What is remembered of a layer's inputs: products of columns, not the inputs themselves."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import torch
from torch import Tensor

from tvm_sparse.errors import InputError

Kept = TypeVar("Kept")


AT_ONCE = 1 << 26
"""Bytes of inputs with fewer rows than columns that are multiplied together."""


class InputStatistics:
    """Sums over all calibration data of one layer, in float64.

    ``gram`` is ``X^T X`` of the inputs ``X`` in the network pruned so far, ``cross`` is ``D^T X``
    with the inputs ``D`` in the dense network, both ``(parts, columns, columns)``. They are one
    tensor, which is computed and stored once, as long as ``D`` is ``X``.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.gram: Tensor | None = None
        self.cross: Tensor | None = None
        self._waiting: list[tuple[Tensor, Tensor]] = []
        self._kept: dict[Hashable, Any] = {}

    def add(self, inputs: Tensor, dense: Tensor) -> None:
        """Count the inputs ``(parts, rows, columns)``, and the dense network's.

        Raises
        ------
        InputError
            One is not finite; :meth:`flush` tells it where rows wait.
        """
        _, rows, columns = inputs.shape
        if rows >= columns:
            self._multiply(inputs, dense)
            return
        kept = inputs.clone()
        self._waiting.append((kept, kept if dense is inputs else dense.clone()))
        if 2 * inputs.nbytes * len(self._waiting) >= AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Multiply what waits: few rows at a time would spend all time on the sums."""
        if self._waiting:
            same = all(inputs is dense for inputs, dense in self._waiting)
            inputs = torch.cat([inputs for inputs, _ in self._waiting], 1)
            dense = inputs if same else torch.cat([dense for _, dense in self._waiting], 1)
            self._waiting = []
            self._multiply(inputs, dense)

    def _multiply(self, inputs: Tensor, dense: Tensor) -> None:
        same = dense is inputs
        inputs = inputs.float()
        gram = inputs.mT @ inputs
        cross = gram if same else dense.float().mT @ inputs
        # A value that is not finite makes its own product with itself so.
        if not all(m.diagonal(dim1=-2, dim2=-1).isfinite().all() for m in (gram, cross)):
            raise InputError(
                f"layer '{self.name}'",
                "its input on the calibration data holds NaN or infinite values",
                "finite activations",
                "check the calibration batches, and the model's outputs on them",
            )
        if self.gram is None or self.cross is None:
            self.gram = gram.double()
            self.cross = self.gram if same else cross.double()
            return
        if self.cross is self.gram and not same:
            self.cross = self.gram.clone()
        if self.cross is not self.gram:
            self.cross += cross
        self.gram += gram

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
        self.flush()
        assert self.gram is not None and self.cross is not None
        return self.gram, self.cross
