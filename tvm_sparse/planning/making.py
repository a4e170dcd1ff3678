"""Making tables: networks are timed, layers pruned, factors evolved, and the frontier is run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvm_sparse.base.progress import ReportProgress
from tvm_sparse.base.targets import parse_target, threads_of
from tvm_sparse.base.targets import spelled as spelled_target
from tvm_sparse.planning.candidates import Candidate
from tvm_sparse.planning.costs import Costs
from tvm_sparse.planning.evolution import choices, evolved
from tvm_sparse.planning.knapsack import CELLS, Numbers
from tvm_sparse.planning.losses import losses
from tvm_sparse.planning.networks import FLOAT, Networks
from tvm_sparse.planning.stitching import Stitched
from tvm_sparse.planning.tables import Point, Tables
from tvm_sparse.pruning.spelling import spelled

FRONTIER = tuple(np.linspace(0.0, 0.95, 12))
"""Where plans are run as whole networks, between the fastest one, 0, and dense, 1."""


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
    us = next(iter(costs.values())).us
    factors = evolved(us, start, stitched.drop, trials=trials, seed=seed, progress=progress)
    weighted = factors[:, None] * start
    uniform, mixed = _points(next(iter(costs.values())), candidates, weighted, stitched)
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
    costs: Costs, candidates: Sequence[Candidate], losses: Numbers, stitched: Stitched
) -> tuple[tuple[Point, ...], tuple[Point, ...]]:
    """Run networks with one candidate everywhere, and those on the frontier."""

    def point(label: str, choice: Sequence[int]) -> Point:
        loss = float(losses[np.arange(len(losses)), list(choice)].sum())
        us, nbytes = costs.whole_us(choice), costs.whole_bytes(choice)
        return Point(label, us, nbytes, loss, stitched.drop(choice))

    uniform = [point(c.label, [i] * len(losses)) for i, c in enumerate(candidates) if i]
    mixed = [point("", choice) for choice in choices(costs.us, losses, FRONTIER, CELLS)]
    return tuple(uniform), tuple(mixed)
