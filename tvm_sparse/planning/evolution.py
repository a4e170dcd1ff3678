"""Factors of the layers' losses, so that the choice by their sum is good for the whole network."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tvm_sparse.base.progress import ReportProgress
from tvm_sparse.planning.knapsack import Knapsack, Numbers

CELLS = 1 << 11
"""Of the grid: a choice takes a few milliseconds."""

SHARE = 0.15
"""Of the layers whose factors a trial changes."""

STRENGTH = 0.8
"""Standard deviation of the logarithm of a change."""

PLACES = (0.35, 0.65)
"""Budgets that factors are judged at, between the fastest network and the dense one. A budget of
the user's is none of them: factors serve all of them alike."""


def evolved(
    costs: Numbers,
    losses: Numbers,
    drop: Callable[[tuple[int, ...]], float],
    *,
    trials: int,
    seed: int,
    progress: ReportProgress,
) -> Numbers:
    """Return a factor for each layer's losses.

    Each trial changes some factors at random, and keeps the change if the networks that are then
    chosen lose less: the sum of the logarithms of their drops falls.

    Parameters
    ----------
    costs, losses
        Tables (layers, candidates).
    drop
        What a choice loses as a whole network.
    trials
        Changes that are tried; 0 returns ones.
    seed
        Of the changes. Equal arguments give equal factors.
    """
    rng = np.random.default_rng(seed)
    factors = np.ones(len(costs))
    if not trials:
        return factors
    best = _score(costs, losses, drop)
    for trial in range(trials):
        chosen = rng.random(len(costs)) < SHARE
        chosen[rng.integers(len(costs))] = True
        change = np.where(chosen, rng.normal(0, STRENGTH, len(costs)), 0.0)
        changed = factors * np.exp(change)
        found = _score(costs, changed[:, None] * losses, drop)
        if found < best:
            factors, best = changed, found
        progress("evolution", trial + 1, trials)
    return factors


def _score(costs: Numbers, losses: Numbers, drop: Callable[[tuple[int, ...]], float]) -> float:
    return sum(float(np.log(drop(choice) + 1e-9)) for choice in choices(costs, losses, PLACES))


def choices(
    costs: Numbers, losses: Numbers, places: Sequence[float], cells: int = CELLS
) -> list[tuple[int, ...]]:
    """Return the best choice at each of ``places`` between the cheapest network, 0, and dense, 1.

    Dense is the first candidate.
    """
    knapsack = Knapsack(list(costs), list(losses), cells)
    dense = float(costs[:, 0].sum())
    found = (
        knapsack.within(knapsack.lowest + p * (max(dense, knapsack.lowest) - knapsack.lowest))
        for p in places
    )
    return [choice for choice in found if choice is not None]
