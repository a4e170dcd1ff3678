"""Pruned taps of depthwise convolutions (DEPrune: depth-wise convolution pruning)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tvm_sparse.errors import InputError
from tvm_sparse.machine.vector import LANES
from tvm_sparse.patterns.base import Array, Evidence, Fit, Mask, ScannedPattern
from tvm_sparse.patterns.chance import LIMIT, log_choose, probability
from tvm_sparse.patterns.cost import index_bits, modelled
from tvm_sparse.patterns.ranking import checked_scores, keep_largest, kept_count
from tvm_sparse.patterns.scan import Scan


@dataclass(frozen=True)
class DepthwiseTaps(ScannedPattern):
    """Single taps of depthwise kernels are zero (Park et al., NeurIPS 2024).

    ``balanced``: every group of ``group`` channels keeps the same number of weights (BWT); a short
    last group keeps the same share. Otherwise one threshold holds for the whole layer (DCP).
    ``keep`` is the number of weights of a full group, where it is known. The weight matrix is
    ``(channels, kh * kw)``.
    """

    group: int = 32
    balanced: bool = True
    keep: int | None = None
    kind: ClassVar[str] = "depthwise_taps"
    ordered: ClassVar[bool] = False
    depthwise: ClassVar[bool | None] = True

    def __post_init__(self) -> None:
        """Refuse parameters that describe no mask."""
        if self.group < 1 or (self.keep is not None and self.keep < 0):
            raise InputError(
                "depthwise taps", f"keep {self.keep} in groups of {self.group}", "group >= 1"
            )

    def project(self, scores: Array, sparsity: float | None = None) -> Mask:
        """Return the mask that keeps the largest scores of each group, or of the layer.

        Parameters
        ----------
        scores
            ``(channels, kh * kw)``; DEPrune takes magnitudes.
        sparsity
            Fraction of zeros, rounded to whole weights a group; ``None`` takes ``keep``.
        """
        scores = checked_scores(scores, self.describe())
        taps = int(scores.shape[1])
        full = self.group * taps
        if sparsity is None:
            if self.keep is None or self.keep > full:
                raise InputError(self.describe(), "no sparsity", f"one, or keep <= {full}")
            sparsity = 1 - self.keep / full
        if not self.balanced:
            keep = kept_count(scores.size, sparsity, self.describe())
            return keep_largest(scores.reshape(-1), keep).reshape(scores.shape)
        mask = np.empty(scores.shape, bool)
        for start in range(0, len(scores), self.group):
            flat = scores[start : start + self.group].reshape(-1)
            keep = kept_count(flat.size, sparsity, self.describe())
            mask[start : start + self.group] = keep_largest(flat, keep).reshape(-1, taps)
        return mask

    @classmethod
    def find(cls, scan: Scan) -> list[Fit]:
        """Return the fit of a depthwise weight: equal counts a group of some size, or none."""
        if not 0 < scan.nonzeros < scan.cells:
            return []
        logs = {group: _log_equal(scan, group) for group in range(1, scan.rows // 2 + 1)}
        group = min(logs, key=lambda g: logs[g], default=0)
        if group and logs[group] < LIMIT:
            keep = int(scan.row_count[:group].sum())
            pattern, chance, groups = cls(group, keep=keep), logs[group], -(-scan.rows // group)
        else:
            pattern, chance, groups = cls(balanced=False), 0.0, 1
        values = 0
        for start in range(0, scan.rows, LANES):
            lanes = scan.row_count[start : start + LANES]
            values += len(lanes) * int(lanes.max())
        bits = values * index_bits(scan.cols)
        cost = modelled(scan.cells, values, bits, scan.itemsize, lookups=0.5)
        padding = 1 - scan.nonzeros / values
        evidence = Evidence("group", groups, groups, None, padding, probability(chance))
        return [Fit(pattern, scan.sparsity, evidence, cost=cost)]

    def describe(self) -> str:
        """Return a phrase like ``"depthwise taps, 63 kept in each group of 32 channels"``."""
        if not self.balanced:
            return "depthwise taps, one threshold a layer"
        count = "equally many" if self.keep is None else str(self.keep)
        return f"depthwise taps, {count} kept in each group of {self.group} channels"


def _log_equal(scan: Scan, group: int) -> float:
    """Return the log chance that all whole groups keep equally many, 0 if they do not."""
    whole = scan.rows // group * group
    counts = scan.row_count[:whole].reshape(-1, group).sum(1)
    if counts.min() < counts.max():
        return 0.0
    log = len(counts) * log_choose(group * scan.cols, int(counts[0]))
    log += log_choose((scan.rows - whole) * scan.cols, scan.nonzeros - int(counts.sum()))
    return log - log_choose(scan.cells, scan.nonzeros) + math.log(scan.rows)
