"""Making tables: networks are timed, layers pruned, factors evolved, and the frontier is run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tvm_sparse.base.progress import ReportProgress
from tvm_sparse.base.targets import parse_target, threads_of
from tvm_sparse.base.targets import spelled as spelled_target
from tvm_sparse.planning.candidates import Candidate
from tvm_sparse.planning.costs import Costs
from tvm_sparse.planning.evolution import evolved
from tvm_sparse.planning.knapsack import CELLS, Knapsack, Numbers
from tvm_sparse.planning.losses import MIDDLE, losses
from tvm_sparse.planning.networks import FLOAT, Networks
from tvm_sparse.planning.tables import Point, Tables
from tvm_sparse.planning.truth import Truth
from tvm_sparse.pruning.spelling import spelled

EDITION = 2
"""Of how tables are made: those of another one are not taken from the cache."""

JUDGED = 2
"""Levels, those next to the middle one first, at whose times losses are judged by their plans."""


def tables_of(
    networks: Networks,
    candidates: Sequence[Candidate],
    numerics: Sequence[str],
    progress: ReportProgress,
    *,
    trials: int,
    seed: int,
) -> Tables:
    """Return tables of ``networks`` with each of ``candidates`` in each of ``numerics``."""
    network, selection = networks.network, networks.selection
    # Times first: to compile takes much memory, and so do the pruned layers that losses leave.
    costs = {name: networks.costs(name, candidates, progress) for name in numerics}
    plain = costs[FLOAT] if FLOAT in costs else networks.costs(FLOAT, candidates[:1], progress)
    found, stitched = losses(network, selection, networks.batches, candidates, progress)
    start = found.sensitivities[:, None] * found.errors
    first = next(iter(costs.values()))
    factors = evolved(first.us, start, stitched.drop, trials=trials, seed=seed, progress=progress)
    truth = Truth(network, selection, networks.batches, candidates, stitched)
    tried = [start, factors[:, None] * start]
    weighted, uniform, mixed = _points(first, candidates, tried, truth, progress)
    layers = list(networks.selection)
    resolved = parse_target(networks.target).target
    return Tables(
        layers=tuple(layer.key for layer in layers),
        sizes=tuple(layer.weight.numel() for layer in layers),
        candidates=tuple(c.label for c in candidates),
        levels=tuple(c.level for c in candidates),
        recipes=tuple(None if c.method is None else spelled(c.method) for c in candidates),
        costs=costs,
        losses=weighted,
        uniform=uniform,
        mixed=mixed,
        dense_us=plain.whole_us([0] * len(layers)),
        target=spelled_target(resolved),
        threads=threads_of(resolved),
    )


def _points(
    costs: Costs,
    candidates: Sequence[Candidate],
    tried: Sequence[Numbers],
    truth: Truth,
    progress: ReportProgress,
) -> tuple[Numbers, tuple[Point, ...], tuple[Point, ...]]:
    """Return which of the losses ``tried`` makes the best plans, and points of both kinds.

    The points are networks with one candidate everywhere, and plans that take as long.
    """
    layers = len(costs.us)
    places = sorted(range(1, len(candidates)), key=lambda c: abs(candidates[c].level - MIDDLE))
    times = {c: float(costs.us[:, c].sum()) for c in places}

    def plans(losses: Numbers, levels: Sequence[int]) -> Iterator[tuple[int, ...]]:
        knapsack = Knapsack(list(costs.us), list(losses), CELLS)
        for c in levels:  # the same candidate everywhere fits
            yield knapsack.within(times[c] * (1 + 1e-9)) or (c,) * layers

    def lost(losses: Numbers) -> float:
        return sum(float(np.log(truth.drop(p) + 1e-9)) for p in plans(losses, places[:JUDGED]))

    best = min(tried, key=lost)

    def point(label: str, choice: Sequence[int]) -> Point:
        loss = float(best[np.arange(layers), list(choice)].sum())
        us, nbytes = costs.whole_us(choice), costs.whole_bytes(choice)
        return Point(label, us, nbytes, loss, truth.drop(choice))

    uniform: dict[int, Point] = {}
    mixed: dict[tuple[int, ...], Point] = {}
    pairs = zip(places, plans(best, places), strict=True)
    for i, (c, choice) in enumerate(pairs):  # those that matter most first: only so many are pruned
        uniform[c] = point(candidates[c].label, [c] * layers)
        mixed[choice] = point("", choice)
        progress("plans and their equals", i + 1, len(places))
    return best, tuple(uniform[c] for c in sorted(uniform)), tuple(mixed.values())
