"""Pruning to any registered pattern, layer by layer: block, unstructured, a third party's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from tvm_sparse.patterns.base import Pattern
from tvm_sparse.patterns.block import Block
from tvm_sparse.patterns.exchange import Exchange
from tvm_sparse.patterns.lowering import raise_
from tvm_sparse.patterns.ranking import keep_largest, kept_count
from tvm_sparse.patterns.unstructured import Unstructured
from tvm_sparse.pruning.layers import Selection
from tvm_sparse.pruning.methods.base import (
    Criterion,
    Importance,
    MatrixMethod,
    Method,
    Proposal,
    check_sparsity,
    scores_of,
)

Scope = Literal["layer", "global"]


@dataclass(frozen=True)
class PatternPruning(MatrixMethod):
    """Project the scores of every layer onto ``pattern`` (block sparsity and others).

    Parameters
    ----------
    pattern
        For example ``Block(4, 4)``: blocks with the smallest sum of scores go.
    sparsity
        Wanted fraction of zeros, as ``pattern.project`` understands it.
    order
        Column order of a convolution's matrix, ``"ihw"`` (the papers) or ``"hwi"``.
    criterion
        ``"magnitude"`` or ``"taylor"`` (Guo et al., Eq. 1).
    """

    pattern: Pattern
    sparsity: float
    order: str = "ihw"
    criterion: Criterion = "magnitude"

    @property
    def columns(self) -> int | None:
        """A block is decided at once; of another pattern nothing is known."""
        return self.pattern.cols if isinstance(self.pattern, Block) else None

    def exchange(self, columns: int) -> Exchange | None:
        """Return what the pattern says."""
        return self.pattern.exchange

    def propose(
        self, selection: Selection, due: float, importance: Importance
    ) -> dict[str, Proposal]:
        """Return one mask a layer at ``due * sparsity``."""
        target = due * self.sparsity
        proposals = {}
        for layer in selection:
            mask = self.pattern.project(self.scores(layer, importance), target)
            mask = raise_(mask, layer.shape, self.order)
            proposals[layer.key] = Proposal(mask, self.pattern.describe(), target)
        return proposals

    def describe(self) -> str:
        """Return the method with its parameters."""
        return f"{self.pattern.describe()} {self.sparsity:.2%}, {self.criterion} ({self.order})"


@dataclass(frozen=True)
class UnstructuredPruning(Method):
    """Zero the smallest magnitudes anywhere: the baseline without structure.

    Parameters
    ----------
    sparsity
        Wanted fraction of zeros.
    scope
        ``"layer"``: the same sparsity in every layer. ``"global"``: one threshold for all.
    """

    sparsity: float
    scope: Scope = "layer"

    def __post_init__(self) -> None:
        """Refuse a sparsity outside [0, 1]."""
        check_sparsity(self.sparsity)

    @property
    def local(self) -> bool:
        """One threshold for all layers needs all scores."""
        return self.scope == "layer"

    @property
    def columns(self) -> int:
        """Every weight is decided by itself."""
        return 1

    def exchange(self, columns: int) -> Exchange | None:
        """Weights of a row change places."""
        return Unstructured().exchange

    def propose(
        self, selection: Selection, due: float, importance: Importance
    ) -> dict[str, Proposal]:
        """Return one mask a layer at ``due * sparsity``."""
        target = due * self.sparsity
        scores = [scores_of(layer).reshape(-1) for layer in selection]
        groups = [np.concatenate(scores)] if self.scope == "global" else scores
        kept = np.concatenate(
            [keep_largest(g, kept_count(g.size, target, "unstructured pruning")) for g in groups]
        )
        parts = np.split(kept, np.cumsum([s.size for s in scores])[:-1])
        what = Unstructured().describe()
        return {
            layer.key: Proposal(part.reshape(layer.shape), what, target)
            for layer, part in zip(selection, parts, strict=True)
        }

    def describe(self) -> str:
        """Return the method with its parameters."""
        return f"unstructured {self.sparsity:.2%}, threshold per {self.scope}"
