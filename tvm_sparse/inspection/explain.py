"""Why a pruned model is not faster: what stands between each layer and a faster kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from tvm_sparse.base.config import Config
from tvm_sparse.base.progress import ReportProgress
from tvm_sparse.formats.two_four import KEEP, QUAD
from tvm_sparse.frontends.model import Model
from tvm_sparse.frontends.modules.layers import LayerWeight
from tvm_sparse.inspection import Row, inspect
from tvm_sparse.inspection.graph import graph_layers
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.patterns.base import Pattern
from tvm_sparse.patterns.block import Block
from tvm_sparse.patterns.lowering import lower, raise_
from tvm_sparse.program.compiler import compile
from tvm_sparse.program.library import Library
from tvm_sparse.selection.break_even import curve
from tvm_sparse.selection.decisions import DENSE, Decision

ORDER = "hwi"
"""The kernels' order of a convolution's columns."""
_BANK, _BLOCK = 16, (16, 1)

REGULAR: dict[str, tuple[Pattern, ...]] = {
    "cuda": (Block(64, 64), Block(128, 64), Balanced(QUAD, KEEP)),
}
"""What zeros gain most as, by the kind of a target: the patterns of its tensor cores."""


@dataclass(frozen=True)
class Nearest:
    """The pattern with a fast kernel that the fewest weights stand in the way of.

    ``in_the_way`` are weights that are not zero and would have to be; ``nonzeros`` all that are
    not. ``chosen`` is what the layer runs as without them, ``us`` its measured time.
    """

    pattern: str
    in_the_way: int
    nonzeros: int
    chosen: str = ""
    us: float | None = None


@dataclass(frozen=True)
class Advice:
    """One layer: what was found, how it runs and why, and what is nearest, if it is not there.

    ``regular`` are the patterns that a target's tensor cores like. With as many zeros in one of
    them, the layer would be so many times as fast as the best dense operator, by the model.
    """

    layer: str
    sparsity: float
    pattern: str
    chosen: str
    reason: str
    us: float | None = None
    nearest: Nearest | None = None
    regular: dict[str, float] = field(default_factory=dict)

    @property
    def gain(self) -> float | None:
        """How many times as fast the layer would be; None if nothing was measured."""
        then = self.nearest.us if self.nearest else None
        return self.us / then if self.us and then else None

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {**asdict(self), "gain": self.gain}


def advise(
    model: Model,
    library: Library,
    config: Config | None = None,
    progress: ReportProgress | None = None,
) -> list[Advice]:
    """Return advice on every layer of ``model`` that a decision was made on.

    ``library`` is the model as ``config`` compiles it. It is compiled once more with the weights
    in the way set to zero, which measures what that would gain in speed. It says nothing of
    accuracy.
    """
    now = {d.layer: d for d in library.decisions}
    rows = {row.layer: row for row in inspect(model).rows}
    weights, nearest = dict(model.weights), {}
    for layer in graph_layers(model):
        decision = now.get(layer.name)
        stored = model.weights.get(layer.weight)
        if decision is None or stored is None:
            continue
        row = rows[layer.name]
        if not _improvable(decision, row, layer) or not _gains(library, layer.name, row.sparsity):
            continue
        found = _projected(layer, row, stored)
        if found is not None:
            weights[layer.weight], nearest[layer.name] = found
    then: dict[str, Decision] = {}
    if nearest:
        changed = replace(model, weights=weights)
        again = compile(changed, target=library.target, config=config, progress=progress)
        then = {d.layer: d for d in again.decisions}
    return [
        replace(_advice(d, nearest.get(name), then.get(name)), regular=_regular(library, d))
        for name, d in now.items()
    ]


def _improvable(decision: Decision, row: Row, layer: LayerWeight) -> bool:
    """Whether a layer has zeros that a kernel of its own could use better."""
    slow = decision.chosen in DENSE or row.fit.pattern.kind == "unstructured"
    return slow and not layer.depthwise


def _gains(library: Library, layer: str, sparsity: float) -> bool:
    """Whether the cost model has a pattern faster than dense with a layer's fraction of zeros."""
    studied = library.decisions.studied.get(layer)
    return studied is not None and any(
        point.cost < 1
        for pattern, level in _patterns(sparsity)
        for point in curve(replace(studied, pattern=pattern, order=ORDER), library.target, [level])
    )


def _regular(library: Library, decision: Decision) -> dict[str, float]:
    """Return the modelled gain of as many zeros in each pattern that the target likes."""
    studied = library.decisions.studied.get(decision.layer)
    found: dict[str, float] = {}
    patterns = REGULAR.get(library.target.kind.name, ())
    if studied is None or studied.contraction.depthwise:
        return {}
    for pattern in patterns:
        level = 1 - KEEP / QUAD if isinstance(pattern, Balanced) else decision.sparsity
        if 0 < level <= decision.sparsity:
            asked = replace(studied, pattern=pattern, order=ORDER)
            points = curve(asked, library.target, [level])
            found |= {pattern.describe(): 1 / point.cost for point in points}
    return found


def _patterns(sparsity: float) -> Iterator[tuple[Pattern, float]]:
    """Yield regular patterns and the fraction of zeros nearest to ``sparsity`` that each has."""
    keep = max(round(_BANK * (1 - sparsity)), 1)
    yield Balanced(_BANK, keep), 1 - keep / _BANK
    yield Block(*_BLOCK), sparsity


def _projected(
    layer: LayerWeight, row: Row, stored: np.ndarray
) -> tuple[np.ndarray, Nearest] | None:
    """Return ``stored`` without what is in the way of the nearest pattern, and that pattern.

    None if the layer's weight is not stored as rows of outputs, or of inputs.
    """
    weight = layer.read()
    nonzeros = int(np.count_nonzero(weight))
    scores, found = np.abs(lower(weight, ORDER).astype(np.float32)), []
    for pattern, level in _patterns(row.sparsity):
        kept = raise_(pattern.project(scores, level), weight.shape, ORDER)
        found.append((int(np.count_nonzero(weight[~kept])), pattern.describe(), kept))
    in_the_way, described, kept = min(found, key=lambda pair: pair[0])
    for own in (kept, kept.T):
        view = weight if own is kept else weight.T
        if own.shape == stored.shape and np.array_equal(stored[view != 0], view[view != 0]):
            changed = np.where(own, stored, np.zeros((), stored.dtype))
            return changed, Nearest(described, in_the_way, nonzeros)
    return None


def _advice(now: Decision, nearest: Nearest | None, then: Decision | None) -> Advice:
    if nearest is not None and then is not None:
        nearest = replace(nearest, chosen=then.chosen, us=_taken(then))
    return Advice(
        now.layer, now.sparsity, now.pattern, now.chosen, now.reason, _taken(now), nearest
    )


def _taken(decision: Decision) -> float | None:
    """Return the time of the kernel that was chosen."""
    return decision.dense_us if decision.chosen in DENSE else decision.sparse_us
