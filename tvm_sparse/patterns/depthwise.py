"""Pruned taps of depthwise convolutions (DEPrune: depth-wise convolution pruning)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tvm_sparse.errors import InputError
from tvm_sparse.patterns.base import Array, Fit, Mask, Pattern
from tvm_sparse.patterns.ranking import checked_scores, keep_largest, kept_count


@dataclass(frozen=True)
class DepthwiseTaps(Pattern):
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
        full = self.group * scores.shape[1]
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
            mask[start : start + self.group] = keep_largest(flat, keep).reshape(-1, mask.shape[1])
        return mask

    @classmethod
    def detect(cls, weight: Array) -> Fit | None:
        raise NotImplementedError

    def describe(self) -> str:
        """Return a phrase like ``"depthwise taps, 63 kept in each group of 32 channels"``."""
        if not self.balanced:
            return "depthwise taps, one threshold a layer"
        count = "equally many" if self.keep is None else str(self.keep)
        return f"depthwise taps, {count} kept in each group of {self.group} channels"
