"""Balanced sparsity and N:M: every bank of a row keeps the same number of weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tvm_sparse.errors import InputError
from tvm_sparse.machine.vector import BANK, LANES
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.patterns.base import Array, Mask
from tvm_sparse.patterns.exchange import Exchange
from tvm_sparse.patterns.lowering import raise_
from tvm_sparse.patterns.ranking import kept_count
from tvm_sparse.pruning.layers import Selection
from tvm_sparse.pruning.methods.base import Criterion, Importance, MatrixMethod, Proposal

Rounding = Literal["nearest", "reach"]


@dataclass(frozen=True)
class BalancedPruning(MatrixMethod):
    """Keep the ``k`` best of every ``bank`` consecutive columns (Yao et al., AAAI 2019).

    Every bank of a layer keeps the same ``k``, so only the sparsities ``1 - k / bank`` exist.

    Parameters
    ----------
    sparsity
        Wanted fraction of zeros.
    bank
        Columns in a bank. The kernels like 16.
    order
        Column order of a convolution's matrix: ``"hwi"`` (a bank is neighbouring input channels of
        one tap, as the kernels read them) or ``"ihw"`` (the papers). Linear layers: no difference.
    rounding
        ``"nearest"``: every layer takes the ``k`` nearest to the target. ``"reach"``: the model as
        a whole has at least the target; each layer keeps the next ``k`` above or below it, and
        those layers go below that lose the smallest fraction of their scores by it.
    criterion
        ``"magnitude"`` (the paper) or ``"taylor"``.
    share
        With 2 (or 4) the rows ``r`` and ``r + 16`` (``+ 32``, ``+ 48``) keep the same columns,
        chosen by the sum of their scores. The kernels then look up an activation once for all of
        them, which is faster; not in the paper.
    """

    sparsity: float
    bank: int = BANK
    order: str = "hwi"
    rounding: Rounding = "nearest"
    criterion: Criterion = "magnitude"
    share: int = 1

    def __post_init__(self) -> None:
        """Refuse parameters that describe no mask."""
        super().__post_init__()
        Balanced(self.bank, self.bank)
        if self.share < 1:
            raise InputError("share", str(self.share), "1 or more rows")

    @property
    def local(self) -> bool:
        """Layers depend on each other only if they reach the target together."""
        return self.rounding == "nearest"

    @property
    def columns(self) -> int:
        """A bank is decided at once."""
        return self.bank

    def mask_of(self, scores: Array) -> Mask | None:
        """Banks depend on each other only where layers reach the target together."""
        if not self.local:
            return None
        pattern = Balanced(self.bank, kept_count(self.bank, self.sparsity, "balanced pruning"))
        return pattern.project(shared_scores(scores, self.share))

    def exchange(self, columns: int) -> Exchange:
        """Weights of a bank change places, together in rows that share them."""
        return Exchange(self.share, LANES if self.share > 1 else 1, pool=self.bank)

    def propose(
        self, selection: Selection, due: float, importance: Importance
    ) -> dict[str, Proposal]:
        """Return one balanced mask a layer at ``due * sparsity``."""
        target = due * self.sparsity
        scores = {
            layer.key: shared_scores(self.scores(layer, importance), self.share)
            for layer in selection
        }
        if self.rounding == "reach":
            keeps = reaching_keeps(scores, self.bank, target)
        else:
            keeps = dict.fromkeys(scores, kept_count(self.bank, target, "balanced pruning"))
        return {
            layer.key: self._proposal(scores[layer.key], layer.shape, keeps[layer.key], target)
            for layer in selection
        }

    def _proposal(
        self, scores: np.ndarray, shape: tuple[int, ...], keep: int, target: float
    ) -> Proposal:
        pattern = Balanced(self.bank, keep)
        mask = raise_(pattern.project(scores), shape, self.order)
        reached = 1 - keep / self.bank
        note = "" if math.isclose(reached, target) else f"bank {self.bank} reaches {reached:.2%}"
        return Proposal(mask, f"{pattern.describe()}, {self.order}", target, note)

    def describe(self) -> str:
        """Return the method with its parameters."""
        share = f", {self.share} rows share" if self.share > 1 else ""
        return (
            f"balanced {self.sparsity:.2%}, bank {self.bank} ({self.order}), {self.rounding}{share}"
        )


def shared_scores(scores: np.ndarray, share: int) -> np.ndarray:
    """Return ``scores`` with those of ``share`` rows, 16 apart, added up in each of them.

    A last group of fewer than ``16 * share`` rows adds up what it has.
    """
    if share == 1:
        return scores
    rows, cols = scores.shape
    padded = np.pad(scores, ((0, -rows % (LANES * share)), (0, 0)))
    groups = padded.reshape(-1, share, LANES, cols)
    total = np.broadcast_to(groups.sum(axis=1, keepdims=True), groups.shape)
    return total.reshape(-1, cols)[:rows]


def reaching_keeps(scores: Mapping[str, np.ndarray], bank: int, target: float) -> dict[str, int]:
    """Return how many each bank of a layer keeps so that all layers together reach ``target``.

    Each layer keeps the next count above or below ``bank * (1 - target)``. Layers go below one
    after the other until the fraction of zeros over all layers is at least ``target``. Those that
    lose the smallest fraction of their scores go first. If short banks at the ends of rows
    keep so much that this does not suffice, layers go one further down in the same way.

    Parameters
    ----------
    scores
        Matrices ``(rows, cols)`` by layer.

    Raises
    ------
    InputError
        If the target needs banks that keep nothing.
    """
    keep = math.ceil(bank * (1 - target) - 1e-9)
    keeps = dict.fromkeys(scores, keep)
    masks = {name: Balanced(bank, keep).project(score) for name, score in scores.items()}
    weights = sum(score.size for score in scores.values())
    kept = sum(int(mask.sum()) for mask in masks.values())
    # One round does unless short banks at the ends of rows keep more than their share.
    for keep in range(keep - 1, -1 if target == 1 else 0, -1):
        lower_masks = {name: Balanced(bank, keep).project(s) for name, s in scores.items()}
        for name in sorted(scores, key=lambda n: _loss(scores[n], masks[n], lower_masks[n])):
            if 1 - kept / weights >= target - 1e-9:
                return keeps
            keeps[name] = keep
            kept += int(lower_masks[name].sum()) - int(masks[name].sum())
            masks[name] = lower_masks[name]
    if 1 - kept / weights >= target - 1e-9:
        return keeps
    raise InputError(
        "balanced pruning",
        f"banks of {bank} reach {1 - kept / weights:.2%} zeros at most",
        f"{target:.2%} with at least one weight in every bank",
        "take a larger bank",
    )


def _loss(scores: np.ndarray, before: np.ndarray, after: np.ndarray) -> float:
    """Return the fraction of the scores that ``before`` keeps and ``after`` does not."""
    return float(scores[before & ~after].sum()) / max(float(scores.sum()), 1e-30)
