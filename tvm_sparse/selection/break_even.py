"""From how many zeros on a layer of this size gains: the cost model over sparsity, by pattern."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from tvm.target import Target

from tvm_sparse.base.numerics import samples
from tvm_sparse.base.targets import shares_loops
from tvm_sparse.errors import InputError
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.patterns.base import Pattern
from tvm_sparse.patterns.lowering import raise_
from tvm_sparse.selection.candidate import Candidate
from tvm_sparse.selection.candidates import dense_candidates, sparse_candidates
from tvm_sparse.selection.layer import Layer

LEVELS = (0.3, 0.5, 0.625, 0.75, 0.875, 0.9375)
"""Fractions of zeros at which the model is asked."""

FEATURES = 256
"""Rows of the weights that a CPU's model is asked for: more of them cost as much each."""


@dataclass(frozen=True)
class Studied:
    """A contraction and the pattern in its weight, whose columns lie in ``order``."""

    contraction: Contraction
    pattern: Pattern
    order: str

    def narrowed(self, target: Target) -> Contraction:
        """Return the contraction with at most :data:`FEATURES` features, where they are alike."""
        whole = self.contraction
        if not shares_loops(target) or whole.depthwise or whole.groups > 1:
            return whole
        return replace(whole, features=min(whole.features, FEATURES))


@dataclass(frozen=True)
class Point:
    """The cheapest format at a fraction of zeros; ``cost`` is over the best dense operator's."""

    sparsity: float
    cost: float
    format: str


def curve(studied: Studied, target: Target, levels: Sequence[float] = LEVELS) -> list[Point]:
    """Return the modelled cost of random masks of the pattern, in the order of ``levels``.

    A level that the pattern does not have is left out, and so is one that no format fits.
    """
    contraction = studied.narrowed(target)
    dense = min(c.cost for c in dense_candidates(contraction, target))
    columns = 1 if contraction.depthwise else contraction.columns
    shape = (contraction.features, columns, *contraction.taps)
    rng = np.random.default_rng(0)
    scores = rng.random(contraction.matrix_shape)
    values = samples(rng, shape, contraction.numerics.weight)
    points = []
    for level in levels:
        try:
            mask = studied.pattern.project(scores, level)
        except InputError:
            continue
        weight = np.where(raise_(mask, shape, studied.order), values, 0).astype(values.dtype)
        layer = Layer("", "", contraction, weight)
        found = sparse_candidates(contraction, layer.scan(), target)
        fitting = [c for c in found if isinstance(c, Candidate)]
        if fitting and layer.sparsity:
            best = min(fitting, key=lambda c: c.cost)
            points.append(Point(layer.sparsity, best.cost / dense, best.name))
    return points


def break_even(points: Sequence[Point]) -> float | None:
    """Return the fraction of zeros from which on the model is below one, between two points.

    ``None`` where it never is, the first point's where it always is.
    """
    above = [p for p in points if p.cost >= 1]
    if not points or above[-1:] == [points[-1]]:
        return None
    if not above:
        return points[0].sparsity
    low = above[-1]
    high = points[points.index(low) + 1]
    part = (low.cost - 1) / (low.cost - high.cost)
    return low.sparsity + part * (high.sparsity - low.sparsity)
