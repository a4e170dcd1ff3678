"""Unstructured sparsity: zeros anywhere, like those of ``torch.nn.utils.prune``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tvm_sparse.errors import InputError
from tvm_sparse.machine.vector import LANES
from tvm_sparse.patterns.base import Array, Evidence, Fit, Mask, ScannedPattern
from tvm_sparse.patterns.cost import modelled
from tvm_sparse.patterns.exchange import Exchange
from tvm_sparse.patterns.ranking import checked_scores, keep_largest, kept_count
from tvm_sparse.patterns.scan import Scan


@dataclass(frozen=True)
class Unstructured(ScannedPattern):
    """Zeros without a structure that formats or kernels could use."""

    kind: ClassVar[str] = "unstructured"
    ordered: ClassVar[bool] = False

    def project(self, scores: Array, sparsity: float | None = None) -> Mask:
        """Return the mask of the largest scores of the whole matrix, ties in reading order."""
        scores = checked_scores(scores, self.describe())
        if sparsity is None:
            raise InputError(self.describe(), "no sparsity", "a fraction of zeros")
        keep = kept_count(scores.size, sparsity, self.describe())
        return keep_largest(scores.reshape(-1), keep).reshape(scores.shape)

    @classmethod
    def find(cls, scan: Scan) -> list[Fit]:
        """Return the fit that every mask has: rows stored with their column indices.

        Rows are sorted by length and padded to the longest of 16.
        """
        if not 0 < scan.nonzeros < scan.cells:
            return []
        longest = np.sort(scan.row_count)[::-1][::LANES]
        rows = np.full(len(longest), LANES)
        rows[-1] = scan.rows - LANES * (len(longest) - 1)
        values = int(longest @ rows)
        bits = 8 if scan.cols <= 2**8 else 16 if scan.cols <= 2**16 else 32
        cost = modelled(scan.cells, values, values * bits, scan.itemsize, lookups=1.0)
        evidence = Evidence("row", scan.rows, scan.rows, None, 1 - scan.nonzeros / values, 1.0)
        return [Fit(cls(), scan.sparsity, evidence, cost=cost)]

    @property
    def exchange(self) -> Exchange:
        """Weights of a row change places."""
        return Exchange()

    def describe(self) -> str:
        """Return ``"unstructured"``."""
        return "unstructured"
