"""Balanced sparsity: every bank of consecutive columns keeps the same number of weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tvm_sparse.errors import InputError
from tvm_sparse.machine.vector import LANES
from tvm_sparse.patterns.banks import (
    balanced_cost,
    likely_banks,
    log_equal_counts,
    stored_values,
    tolerated,
)
from tvm_sparse.patterns.base import Array, Evidence, Fit, Mask, ScannedPattern
from tvm_sparse.patterns.chance import LIMIT, exceeding, log_at_most, probability
from tvm_sparse.patterns.exchange import Exchange
from tvm_sparse.patterns.ranking import checked_scores, keep_largest, kept_count
from tvm_sparse.patterns.scan import Scan


@dataclass(frozen=True)
class Balanced(ScannedPattern):
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
    def find(cls, scan: Scan) -> list[Fit]:
        """Return the fits of all bank sizes, exact ones and near misses, the cheapest first.

        A bank follows the pattern with at most ``keep`` nonzeros, since a kept weight may be 0.
        """
        if not 0 < scan.nonzeros < scan.cells:
            return []
        fits = {bank: cls._fits(scan, bank) for bank in likely_banks(scan)}
        costs = {bank: min(f.cost.relative for f in found) for bank, found in fits.items() if found}
        # Where one bank size explains a mask, others nearly do: only its multiples say something.
        best = min(costs, key=lambda bank: costs[bank], default=1)
        multiples = [fit for bank, found in fits.items() if bank % best == 0 for fit in found]
        return sorted(multiples, key=lambda fit: fit.cost.relative)

    @classmethod
    def _fits(cls, scan: Scan, bank: int) -> list[Fit]:
        """Return the fit that holds for every bank, and the one that all but a few follow."""
        whole, tail = scan.bank_histogram(bank)
        beyond = int((whole + tail).sum()) - np.cumsum(whole + tail)
        most = int(np.flatnonzero(beyond == 0)[0])
        usual = int(np.flatnonzero(beyond <= tolerated(int(beyond[0])))[0])
        fits = []
        for keep in sorted({most, usual} - {0, bank}, reverse=True):
            chance = exceeding(scan.cells, scan.nonzeros, bank, keep)
            log = log_at_most(int(whole.sum()), int(whole[keep + 1 :].sum()), chance)
            if keep == most:
                log = min(log, log_equal_counts(scan, bank, whole, tail))
            log += math.log(scan.cols)
            if log < LIMIT:
                fits.append(cls(bank, keep)._fit(scan, most, int(beyond[keep]), log))
        return fits

    def _fit(self, scan: Scan, most: int, wrong: int, log: float) -> Fit:
        """Return the fit of these banks, ``wrong`` of which hold more, at most ``most``.

        Groups of rows with such a bank are padded to ``most``, the others to ``keep``.
        """
        first, groups = scan.banks_beyond(self.bank, self.keep) if wrong else (None, 0)
        padded = min(groups * LANES, scan.rows)
        values = stored_values(scan.rows - padded, scan.cols, self.bank, self.keep)
        values += stored_values(padded, scan.cols, self.bank, most)
        total = scan.rows * -(-scan.cols // self.bank)
        evidence = Evidence(
            "bank",
            total - wrong,
            total,
            f"row {first[0]}, bank {first[1]}" if first else None,
            1 - scan.nonzeros / values,
            probability(log),
        )
        return Fit(self, scan.sparsity, evidence, cost=balanced_cost(scan, self.bank, values))

    @classmethod
    def example(cls) -> Balanced:
        """Return 4 of 16."""
        return cls(16, 4)

    def units(self) -> tuple[int, int]:
        """Return the extents of a bank."""
        return 1, self.bank

    @property
    def exchange(self) -> Exchange:
        """Weights of a bank change places."""
        return Exchange(pool=self.bank)

    def describe(self) -> str:
        """Return ``"balanced <keep> of <bank>"``."""
        return f"balanced {self.keep} of {self.bank}"


def _banks(matrix: np.ndarray, bank: int, padding: float) -> np.ndarray:
    """Return ``matrix`` as ``(rows, banks, bank)``, the last bank filled up with ``padding``."""
    missing = -matrix.shape[1] % bank
    if missing:
        matrix = np.pad(matrix, ((0, 0), (0, missing)), constant_values=padding)
    return matrix.reshape(len(matrix), -1, bank)
