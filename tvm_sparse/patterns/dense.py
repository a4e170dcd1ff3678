"""No sparsity: the pattern of a weight without zeros, so that every layer has a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tvm_sparse.errors import InputError
from tvm_sparse.patterns.base import Array, Evidence, Fit, Mask, ScannedPattern
from tvm_sparse.patterns.cost import modelled
from tvm_sparse.patterns.ranking import checked_scores
from tvm_sparse.patterns.scan import Scan


@dataclass(frozen=True)
class Dense(ScannedPattern):
    """Every weight is kept."""

    kind: ClassVar[str] = "dense"
    ordered: ClassVar[bool] = False
    depthwise: ClassVar[bool | None] = None

    def project(self, scores: Array, sparsity: float | None = None) -> Mask:
        """Return the mask that keeps everything; ``sparsity`` may only be 0 or ``None``."""
        if sparsity:
            raise InputError(self.describe(), f"sparsity {sparsity}", "0", "choose a pattern")
        return np.ones(checked_scores(scores, self.describe()).shape, bool)

    @classmethod
    def find(cls, scan: Scan) -> list[Fit]:
        """Return the fit of a weight without any zero."""
        if scan.nonzeros < scan.cells:
            return []
        cost = modelled(scan.cells, scan.cells, 0, scan.itemsize)
        return [Fit(cls(), 0.0, Evidence("row", scan.rows, scan.rows), cost=cost)]

    def describe(self) -> str:
        """Return ``"dense"``."""
        return "dense"
