"""Balanced sparsity: every bank of consecutive columns keeps the same number of weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tvm_sparse.errors import InputError
from tvm_sparse.patterns.base import Array, Evidence, Fit, Mask, Pattern
from tvm_sparse.patterns.ranking import checked_scores, keep_largest, kept_count


@dataclass(frozen=True)
class Balanced(Pattern):
    """At most ``keep`` of each ``bank`` consecutive columns of a row are nonzero; N:M is the same.

    Rows whose length is not a multiple of ``bank`` end with a shorter bank that keeps
    ``min(keep, its columns)`` (Yao et al., AAAI 2019, "balance ranges").
    """

    bank: int
    keep: int
    kind: ClassVar[str] = "balanced"

    def __post_init__(self) -> None:
        """Refuse parameters that describe no mask."""
        if self.bank < 1 or not 0 <= self.keep <= self.bank:
            raise InputError(
                "balanced pattern", f"keep {self.keep} of {self.bank}", "0 <= keep <= bank"
            )

    def project(self, scores: Array, sparsity: float | None = None) -> Mask:
        """Return the mask that keeps the largest scores of every bank, ties to the left.

        Parameters
        ----------
        scores
            ``(rows, cols)``, finite, non-negative.
        sparsity
            Replaces ``keep`` by ``bank * (1 - sparsity)``, rounded to nearest; ``None``: ``keep``.
        """
        scores = checked_scores(scores, self.describe())
        keep = self.keep if sparsity is None else kept_count(self.bank, sparsity, self.describe())
        return keep_largest(_banks(scores, self.bank, -np.inf), keep).reshape(len(scores), -1)[
            :, : scores.shape[1]
        ]

    @classmethod
    def detect(cls, weight: Array) -> Fit | None:
        """Return the smallest bank size that explains the zeros of ``weight``, if one does."""
        nonzero = np.asarray(weight) != 0
        for bank in range(2, nonzero.shape[1] + 1):
            count = _banks(nonzero, bank, False).sum(-1)
            keep = int(count.max(initial=0))
            if keep < bank and (count[:, : nonzero.shape[1] // bank] == keep).all():
                return Fit(cls(bank, keep), 1 - nonzero.mean(), Evidence("bank", *[count.size] * 2))
        return None

    def describe(self) -> str:
        """Return ``"balanced <keep> of <bank>"``."""
        return f"balanced {self.keep} of {self.bank}"


def _banks(matrix: np.ndarray, bank: int, padding: float | bool) -> np.ndarray:
    """Return ``matrix`` as ``(rows, banks, bank)``, the last bank filled up with ``padding``."""
    missing = -matrix.shape[1] % bank
    if missing:
        matrix = np.pad(matrix, ((0, 0), (0, missing)), constant_values=padding)
    return matrix.reshape(len(matrix), -1, bank)
