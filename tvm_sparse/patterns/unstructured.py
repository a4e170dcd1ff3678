"""Unstructured sparsity: zeros anywhere, as ``torch.nn.utils.prune.l1_unstructured`` leaves them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tvm_sparse.errors import InputError
from tvm_sparse.patterns.base import Array, Fit, Mask, Pattern
from tvm_sparse.patterns.ranking import checked_scores, keep_largest, kept_count


@dataclass(frozen=True)
class Unstructured(Pattern):
    """Zeros without a structure that storage or kernels could use."""

    kind: ClassVar[str] = "unstructured"

    def project(self, scores: Array, sparsity: float | None = None) -> Mask:
        """Return the mask of the largest scores of the whole matrix, ties in reading order."""
        scores = checked_scores(scores, self.describe())
        if sparsity is None:
            raise InputError(self.describe(), "no sparsity", "a fraction of zeros")
        keep = kept_count(scores.size, sparsity, self.describe())
        return keep_largest(scores.reshape(-1), keep).reshape(scores.shape)

    @classmethod
    def detect(cls, weight: Array) -> Fit | None:
        raise NotImplementedError

    def describe(self) -> str:
        """Return ``"unstructured"``."""
        return "unstructured"
