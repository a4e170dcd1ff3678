"""Sparsities of single layers, by what each loses, at an equal total."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Mapping, Sequence

from torch import nn

from tvm_sparse.errors import InputError
from tvm_sparse.pruning.compensation.calls import Batch, evaluating, parted
from tvm_sparse.pruning.compensation.collect import collect
from tvm_sparse.pruning.compensation.layer import Compensation, at_sparsity, judged
from tvm_sparse.pruning.compensation.stages import stages_of
from tvm_sparse.pruning.compensation.starts import Starts
from tvm_sparse.pruning.copies import copied
from tvm_sparse.pruning.methods.base import Method
from tvm_sparse.pruning.one_shot import batches_of

Losses = Mapping[str, Mapping[float, float]]
"""Loss of each layer at each sparsity."""


def layer_sparsities(
    model: nn.Module,
    calibration: Iterable[Batch],
    method: Method,
    sparsities: Sequence[float],
    *,
    include: Sequence[str] = ("*",),
    ignore: Sequence[str] = (),
) -> dict[str, float]:
    """Choose a sparsity for each layer, so that all together have that of ``method``.

    Each layer is pruned by itself at each of ``sparsities``, as :func:`.one_shot` does it, and
    loses a fraction of its outputs' energy. Of several batches, a quarter tells these losses, and
    no weight is fitted to it. Their sum is then made small: from the lowest sparsities on, the
    layer goes up that loses least for the zeros it gains.

    Parameters
    ----------
    model
        Not changed.
    calibration, include, ignore
        Those of :func:`.one_shot`.
    method
        One that prunes each layer by itself. Its ``sparsity`` is what the network has in the end,
        or a little more.
    sparsities
        Fractions of zeros that a layer may have, for example ``(0.5, 0.625, 0.75, 0.875)``.

    Returns
    -------
    The sparsity of each layer by the name of its parameter, for ``one_shot(sparsities=...)``.

    Raises
    ------
    InputError
        The method decides for several layers at once, or the target is out of reach.
    """
    levels = sorted(set(sparsities))
    if not levels:
        raise InputError("sparsities", "none", "some fractions of zeros")
    for level in levels:
        at_sparsity(method, level)
    target: float = method.sparsity  # type: ignore[attr-defined]
    dense = copied(model)
    selection = method.select(dense, include, ignore)
    fitted, other = (Starts(dense, dense, side) for side in parted(batches_of(calibration)))
    losses: dict[str, dict[float, float]] = {}
    with evaluating(dense):
        stages, silent = stages_of(dense, selection.layers, fitted.batches[0])
        for stage in stages:
            statistics, others = collect(stage, fitted), collect(stage, other)
            for layer in stage.layers:
                losses[layer.key] = {}
                for level in levels:
                    compensation = Compensation(at_sparsity(method, level), steps=0)
                    weight = compensation.prune(layer, selection, statistics[layer.key]).weight
                    losses[layer.key][level] = judged(layer, weight, others[layer.key])
    sizes = {layer.key: layer.weight.numel() for layer in selection if layer not in silent}
    return chosen(losses, sizes, target)


def chosen(losses: Losses, sizes: Mapping[str, int], target: float) -> dict[str, float]:
    """Return the level of each layer whose losses add up to little, at ``target`` over all.

    Greedy on the lower convex hull of each layer's losses, which is optimal up to one step.

    Raises
    ------
    InputError
        All layers at their highest level do not reach ``target``.
    """
    hulls = {name: _hull(loss, sizes[name]) for name, loss in losses.items()}
    found = {name: hull[0][0] for name, hull in hulls.items()}
    missing = target * sum(sizes.values()) - sum(found[name] * sizes[name] for name in found)
    heap = [(hull[1][1], name, 1) for name, hull in hulls.items() if len(hull) > 1]
    heapq.heapify(heap)
    while missing > 1e-6 * sum(sizes.values()):
        if not heap:
            raise InputError(
                "sparsities", f"the highest gives less than {target:.2%}", "a higher one"
            )
        _, name, at = heapq.heappop(heap)
        level = hulls[name][at][0]
        missing -= (level - found[name]) * sizes[name]
        found[name] = level
        if at + 1 < len(hulls[name]):
            heapq.heappush(heap, (hulls[name][at + 1][1], name, at + 1))
    return found


def _hull(losses: Mapping[float, float], size: int) -> list[tuple[float, float]]:
    """Return the levels on the lower convex hull, each with its slope: loss for a zero more."""
    kept: list[tuple[float, float]] = []
    for level, loss in sorted(losses.items()):
        point = (level, loss)
        while len(kept) > 1 and _slope(kept[-2], kept[-1]) >= _slope(kept[-1], point):
            kept.pop()
        kept.append(point)
    slopes = [0.0] + [_slope(a, b) / size for a, b in itertools.pairwise(kept)]
    return [(level, slope) for (level, _), slope in zip(kept, slopes, strict=True)]


def _slope(a: tuple[float, float], b: tuple[float, float]) -> float:
    return (b[1] - a[1]) / (b[0] - a[0])
