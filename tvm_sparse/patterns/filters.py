"""Filter pruning: whole outputs or inputs of a layer are removed, which makes it smaller."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tvm_sparse.errors import InputError
from tvm_sparse.patterns.base import Array, Evidence, Fit, Mask, ScannedPattern
from tvm_sparse.patterns.block import NEAR_MISS
from tvm_sparse.patterns.chance import LIMIT, log_choose, probability
from tvm_sparse.patterns.cost import modelled
from tvm_sparse.patterns.ranking import checked_scores, keep_largest, kept_count
from tvm_sparse.patterns.scan import Scan


@dataclass(frozen=True)
class FilterPruned(ScannedPattern):
    """Whole rows (outputs) or column groups (inputs) of the weight matrix are zero.

    An input of a convolution lowered in ``ihw`` order is a group of ``taps`` neighbouring columns.
    ``outputs`` and ``inputs`` say how many stay, where it is known.
    """

    outputs: int | None = None
    inputs: int | None = None
    taps: int = 1
    kind: ClassVar[str] = "filter_pruned"
    ordered: ClassVar[bool] = False
    depthwise: ClassVar[bool | None] = None

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
    def find(cls, scan: Scan) -> list[Fit]:
        """Return the fit of a weight with zero rows or inputs, the rest being dense.

        A row follows the pattern if it is zero or more than half full.
        """
        per_input = scan.col_count.reshape(-1, scan.taps).sum(1)
        outputs, inputs = int((scan.row_count > 0).sum()), int((per_input > 0).sum())
        if outputs == scan.rows and inputs == len(per_input):
            return []
        inside = outputs * inputs * scan.taps
        log = log_choose(scan.rows, outputs) + log_choose(len(per_input), inputs)
        log += log_choose(inside, scan.nonzeros) - log_choose(scan.cells, scan.nonzeros)
        log += math.log(scan.cells)
        broken = (scan.row_count > 0) & (2 * scan.row_count <= inputs * scan.taps)
        wrong = int(np.count_nonzero(broken))
        if scan.nonzeros and (log >= LIMIT or wrong > NEAR_MISS * outputs):
            return []
        evidence = Evidence(
            "row",
            scan.rows - wrong,
            scan.rows,
            f"row {int(broken.argmax())}" if wrong else None,
            1 - scan.nonzeros / inside if inside else 0.0,
            probability(log) if inside else 0.0,
        )
        cost = modelled(scan.cells, inside, 0, scan.itemsize)
        pattern = cls(outputs, inputs, scan.taps)
        return [Fit(pattern, scan.sparsity, evidence, cost=cost)]

    def describe(self) -> str:
        """Return a phrase like ``"filters removed, 48 outputs and 64 inputs left"``."""
        known = [(self.outputs, "outputs"), (self.inputs, "inputs")]
        left = " and ".join(f"{count} {what}" for count, what in known if count is not None)
        return f"filters removed, {left} left" if left else "filters removed"
