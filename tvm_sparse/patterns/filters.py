"""Filter pruning: whole outputs or inputs of a layer are removed, which makes it smaller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tvm_sparse.errors import InputError
from tvm_sparse.patterns.base import Array, Fit, Mask, Pattern
from tvm_sparse.patterns.ranking import checked_scores, keep_largest, kept_count


@dataclass(frozen=True)
class FilterPruned(Pattern):
    """Whole rows (outputs) or column groups (inputs) of the weight matrix are zero.

    An input of a convolution lowered in ``ihw`` order is a group of ``taps`` neighbouring columns.
    ``outputs`` and ``inputs`` say how many stay, where it is known.
    """

    outputs: int | None = None
    inputs: int | None = None
    taps: int = 1
    kind: ClassVar[str] = "filter_pruned"

    def project(self, scores: Array, sparsity: float | None = None) -> Mask:
        """Return the mask that keeps the rows with the largest sums of ``scores``.

        Inputs follow from the layer before and are not ranked here.

        Parameters
        ----------
        scores
            ``(outputs, inputs * taps)``; squared weights rank by l2 norm, magnitudes by l1 norm.
        sparsity
            Fraction of the rows to zero, rounded to nearest; ``None`` keeps ``outputs`` of them.
        """
        scores = checked_scores(scores, self.describe())
        if sparsity is not None:
            keep = kept_count(len(scores), sparsity, self.describe())
        elif self.outputs is not None:
            keep = self.outputs
        else:
            raise InputError(self.describe(), "no sparsity", "one, or a number of outputs")
        kept = keep_largest(scores.sum(axis=1, dtype=np.float64), keep)
        return np.broadcast_to(kept[:, None], scores.shape).copy()

    @classmethod
    def detect(cls, weight: Array) -> Fit | None:
        raise NotImplementedError

    def describe(self) -> str:
        """Return a phrase like ``"filters removed, 48 outputs and 64 inputs left"``."""
        known = [(self.outputs, "outputs"), (self.inputs, "inputs")]
        left = " and ".join(f"{count} {what}" for count, what in known if count is not None)
        return f"filters removed, {left} left" if left else "filters removed"
