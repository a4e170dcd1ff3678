"""Pruning one layer with the statistics of its inputs."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

import numpy as np
import torch
from torch import Tensor

from tvm_sparse.errors import InputError
from tvm_sparse.pruning.compensation.goals import energy_of, goal_of, share
from tvm_sparse.pruning.compensation.statistics import InputStatistics
from tvm_sparse.pruning.compensation.swaps import ROUNDS, swapped
from tvm_sparse.pruning.compensation.update import (
    Scores,
    refit,
    sweep,
)
from tvm_sparse.pruning.compensation.views import View
from tvm_sparse.pruning.layers import PrunableLayer, Selection
from tvm_sparse.pruning.methods.base import Method, Proposal

COLUMNS = 32
"""A mask is decided for about as many columns at a time."""


@dataclass(frozen=True)
class Scored(PrunableLayer):
    """A layer whose weights count by ``scores``, in the weight's shape, in place of magnitudes."""

    scores: np.ndarray = field(default_factory=lambda: np.empty(0))

    def values(self) -> np.ndarray:
        """Return what a method takes the magnitudes of."""
        return np.sqrt(self.scores)


@dataclass(frozen=True)
class Pruned:
    """The new weight and mask of a layer, in the weight's shape, and what it cost.

    ``loss`` is the fraction of the outputs' energy that is lost, on the calibration data: 0 where
    nothing changed, 1 where the outputs are gone. ``moved`` weights were kept in place of others
    since the mask was chosen, which took ``seconds``.
    """

    weight: Tensor
    proposal: Proposal
    loss: float
    moved: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Compensation:
    """How layers are pruned (see :func:`tvm_sparse.pruning.one_shot`).

    Unless ``swept``, masks are decided at once, by what each weight costs alone: faster, and good
    enough to compare levels. Weights that are ``single`` are fitted in float32, twice as fast.
    """

    method: Method
    damping: float = 0.01
    steps: int = 30
    reference: float = 0.5
    swaps: int = ROUNDS
    sparsities: Mapping[str, float] = field(default_factory=dict)
    swept: bool = True
    single: bool = False

    def method_of(self, layer: PrunableLayer) -> Method:
        """Return the method with the sparsity of ``layer``."""
        own, method = self.sparsities.get(layer.key), self.method.of(layer)
        return method if own is None else at_sparsity(method, own)

    def prune(
        self,
        layer: PrunableLayer,
        selection: Selection,
        statistics: InputStatistics,
        given: Proposal | None = None,
    ) -> Pruned:
        """Return ``layer`` pruned; ``given`` is its mask if that is decided already."""
        method = self.method_of(layer)
        view = View(layer, getattr(method, "order", "ihw"))
        goal = goal_of(view, statistics, self.damping, self.reference, again=not self.swept)
        decision = _Decision(method, view, selection, given)
        if given is None and (method.columns is None or not self.swept):
            decision.propose(goal.saliency)
        if self.swept:
            found, mask = sweep(goal.best, goal.factor, decision.width, decision)
        else:
            found, mask = goal.best, decision.whole(goal.best)
        if self.single:
            goal = goal.single()
        hessian, wanted, best = goal.hessian, goal.wanted, goal.best
        found = refit(found.to(best), mask, hessian, wanted, self.steps)
        before, begin = mask, time.monotonic()
        exchange = view.exchange(method, mask.shape[-1]) if self.swaps else None
        if exchange is not None:
            found, mask = swapped(
                *(found, mask, hessian, wanted, exchange),
                alive=view.alive(mask),
                rounds=self.swaps,
                steps=self.steps,
            )
        seconds = time.monotonic() - begin
        loss = share(energy_of(found - best, hessian), goal.energy)
        proposal = decision.proposal
        assert proposal is not None
        proposal = replace(proposal, mask=view.array(mask))
        return Pruned(view.tensor(found), proposal, loss, int((mask & ~before).sum()), seconds)


def judged(layer: PrunableLayer, weight: Tensor, statistics: InputStatistics) -> float:
    """Return the fraction of the outputs' energy that ``layer`` loses with ``weight``.

    ``statistics`` are of inputs that ``weight`` was not fitted to: a layer with more columns than
    samples fits those that it has seen.
    """
    view = View(layer, "ihw")
    gram = statistics.kept("float", statistics.matrices()[0].float)

    def parts(array: np.ndarray) -> Tensor:
        return view.parts(array, len(gram)).to(gram)

    dense = parts(layer.values())
    energy = statistics.kept(("energy", layer.key), lambda: energy_of(dense, gram))
    return share(energy_of(parts(weight.cpu().float().numpy()) - dense, gram), energy)


def at_sparsity(method: Method, sparsity: float) -> Method:
    """Return ``method`` with another ``sparsity``.

    Raises
    ------
    InputError
        The method decides for several layers at once, or has no ``sparsity``.
    """
    if not method.local or "sparsity" not in {f.name for f in fields(method)}:
        raise InputError(
            "sparsities",
            f"'{method.describe()}' does not prune each layer by itself",
            "balanced, n of m, blocks, joint or unstructured with a threshold a layer",
        )
    return replace(method, sparsity=sparsity)  # type: ignore[call-arg]


class _Decision:
    """Chooses the mask of a layer, as columns of one matrix, block by block or all at once."""

    def __init__(
        self, method: Method, view: View, selection: Selection, given: Proposal | None
    ) -> None:
        self.method, self.view, self.selection = method, view, selection
        self.proposal = given
        self.alive: Tensor  # what no earlier pruning took, once the first columns are decided
        self.step_by_step = given is None and method.columns is not None
        group = method.columns or 1
        self.width = math.ceil(COLUMNS / group) * group

    def __call__(self, scores: Scores, start: int, stop: int) -> Tensor:
        """Return the mask of columns ``start`` to ``stop`` (see :data:`.update.Decide`)."""
        if start and self.step_by_step and self.view.slices is None:
            own = self._alone(scores(start, stop), self.alive[..., start:stop])
            if own is not None:
                return own
        every = scores(0, len(self.view.places))
        if self.step_by_step:
            self.propose(every)
        found = self.whole(every)
        if not start:
            self.alive = self.view.alive(found)
        return found[..., start:stop]

    def _alone(self, scores: Tensor, alive: Tensor) -> Tensor | None:
        """Return the mask of some columns, as :func:`.scores_of` has a method rank all of them."""
        ranked = scores if self.method.gradients else scores.sqrt()
        ranked = torch.where(alive, ranked.clamp(min=torch.finfo(torch.float32).tiny), 0)
        mask = self.method.mask_of(ranked.flatten(0, 1).cpu().numpy())
        return None if mask is None else torch.from_numpy(mask).to(alive).view_as(alive) & alive

    def whole(self, scores: Tensor) -> Tensor:
        """Return the mask that was decided on, like ``scores`` (parts, rows, columns)."""
        assert self.proposal is not None
        mask, alive = self.proposal.mask, self.view.layer.alive()
        mask = mask if alive is None else mask & alive
        return self.view.parts(mask, len(scores)).to(scores.device)

    def propose(self, scores: Tensor) -> None:
        """Let the method rank ``scores`` (parts, rows, columns)."""
        layer, values = self.view.layer, self.view.array(scores)
        scored = Scored(**vars(layer), scores=values)
        selection = replace(self.selection, layers=(scored,))
        self.proposal = self.method.propose(selection, 1.0, {layer.key: values})[layer.key]
