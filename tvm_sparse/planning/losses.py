"""What each layer loses with each candidate, and how much the network's outputs mind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from tvm_sparse.base.freed import give_back
from tvm_sparse.base.progress import ReportProgress
from tvm_sparse.errors import InputError
from tvm_sparse.planning.candidates import Candidate
from tvm_sparse.planning.costs import families
from tvm_sparse.planning.knapsack import Numbers, monotone
from tvm_sparse.planning.stitching import Stitched
from tvm_sparse.pruning.compensation.calls import Batch, evaluating, parted
from tvm_sparse.pruning.compensation.collect import collect
from tvm_sparse.pruning.compensation.layer import Compensation, judged
from tvm_sparse.pruning.compensation.stages import stages_of
from tvm_sparse.pruning.compensation.starts import Starts
from tvm_sparse.pruning.copies import copied
from tvm_sparse.pruning.layers import Selection, select
from tvm_sparse.pruning.masks import squashed_copy
from tvm_sparse.pruning.methods.dense import KeepAll

SAMPLES = 64
"""Samples of the calibration data whose outputs are compared; statistics are of all."""

STEPS = 8
"""Of conjugate gradients a layer and candidate."""

MIDDLE = 0.75
"""Zeros of the layers before one, where its weights are fitted to a pruned network."""

TYPICAL = 0.05
"""Error of a layer at which its sensitivity is measured: small ones drown in rounding, and large
ones no longer add up."""


@dataclass(frozen=True)
class Losses:
    """Arrays (layers, candidates) of relative errors, and (layers) of sensitivities.

    An error is the fraction of the energy of a layer's outputs that is lost, a sensitivity the
    drop of the network's outputs for each unit of it.
    """

    errors: Numbers
    sensitivities: Numbers


def prunable(
    model: nn.Module,
    batches: Sequence[Batch],
    include: Sequence[str],
    ignore: Sequence[str],
) -> tuple[nn.Module, Selection]:
    """Return a plain copy of ``model``, which is only read, and its layers that run on the data.

    The first ones read all of the data: what they cannot read is told before anything takes long.
    """
    network = squashed_copy(model, shares=True)
    found = select(network, include, ignore)
    with evaluating(network):
        stages, silent = stages_of(network, found.layers, batches[0])
        for stage in stages[:1]:
            collect(stage, Starts(network, network, batches))
    running = tuple(layer for layer in found if layer not in silent)
    if not running:
        reason = "no layer that may be pruned is called on the calibration data"
        raise InputError("plan", reason, "batches that the layers read")
    return network, replace(found, layers=running)


def losses(
    network: nn.Module,
    selection: Selection,
    batches: Sequence[Batch],
    candidates: Sequence[Candidate],
    progress: ReportProgress,
) -> tuple[Losses, Stitched]:
    """Prune each layer with each candidate; return what is lost, and all the weights.

    Each layer is pruned twice: behind dense layers, and behind layers that are pruned, too, whose
    errors it then makes up for. Where there are several batches, networks are judged on other ones
    than weights are fitted to.
    """
    layers = list(selection)
    fitted, other = parted(batches)
    changed = copied(network, [layer.stored for layer in layers])
    twins = [replace(layer, module=changed.get_submodule(layer.name)) for layer in layers]
    stitched = Stitched(changed, twins, layers, samples(other))
    errors, done = np.zeros((len(layers), len(candidates))), 0
    for fit, before in enumerate((0, _middle(candidates))):
        for i, found in _fitted(network, selection, (fitted, other), candidates, before):
            for c, (weight, loss) in found.items():
                stitched.keep(i, c, weight, fit)
                errors[i, c] = errors[i, c] if fit else loss
            done += 1
            progress("losses of layers", done, 2 * len(layers))
    errors = rising(errors, candidates)
    return Losses(errors, _sensitivities(errors, stitched, progress)), stitched


def _fitted(
    network: nn.Module,
    selection: Selection,
    batches: tuple[Sequence[Batch], Sequence[Batch]],
    candidates: Sequence[Candidate],
    before: int,
) -> Iterator[tuple[int, dict[int, tuple[Tensor, float]]]]:
    """Prune each layer with each candidate; yield its place, its weights and what they lose.

    Weights are fitted to the first ``batches``. Losses are on the second ones, behind dense layers.
    The layers before it have the candidate ``before``. Unless that is dense, a layer that stays
    dense adapts to them, too.
    """
    own = [layer.stored for layer in selection]
    reader = copied(network, own) if before else network
    layers = [replace(x, module=reader.get_submodule(x.name)) for x in selection]
    places = {layer.key: i for i, layer in enumerate(layers)}
    methods = [KeepAll() if c.method is None else c.method for c in candidates]
    with evaluating(network), evaluating(reader):
        stages, _ = stages_of(reader, layers, batches[0][0])
        fitted, other = (Starts(reader, network, side) for side in batches)
        for stage in stages:
            statistics = collect(stage, fitted)
            others = {} if before else collect(stage, other)
            for layer in stage.layers:
                found = {}
                for c, method in enumerate(methods):
                    if before or c:
                        compensation = Compensation(method, steps=STEPS, swaps=0, swept=False)
                        weight = compensation.prune(layer, selection, statistics[layer.key]).weight
                        unseen = others.get(layer.key)
                        found[c] = weight, judged(layer, weight, unseen) if unseen else 0.0
                if before:
                    with torch.no_grad():
                        layer.stored.copy_(layer.own(found[before][0]))
                yield places[layer.key], found
                give_back()  # the C library would keep what a layer was fitted with


def _middle(candidates: Sequence[Candidate]) -> int:
    """Return the candidate that layers before one have in the second fit."""
    first = [i for i, c in enumerate(candidates) if c.family == 1]
    return min(first, key=lambda i: abs(candidates[i].level - MIDDLE))


def _sensitivities(errors: Numbers, stitched: Stitched, progress: ReportProgress) -> Numbers:
    """Return the drop over the error of each layer, where its error is typical."""
    found = np.zeros(len(errors))
    for i, row in enumerate(errors):
        nearest = 1 + int(np.argmin(np.abs(np.log(np.maximum(row[1:], 1e-12) / TYPICAL))))
        if row[nearest] > 0:
            found[i] = stitched.alone(i, nearest) / row[nearest]
        progress("sensitivities", i + 1, len(errors))
    return found


def rising(errors: Numbers, candidates: Sequence[Candidate]) -> Numbers:
    """Return ``errors`` with no level of a family losing less than a less sparse one."""
    result = errors.copy()
    for places in families(candidates):
        for row in result:
            row[places] = monotone(row[places].tolist())
    return result


def samples(batches: Sequence[Batch], most: int = SAMPLES) -> list[Batch]:
    """Return the first batches that together have ``most`` samples, at least one batch."""
    found: list[Batch] = []
    count = 0
    for batch in batches:
        if count >= most:
            break
        found.append(batch)
        leaves = [x for x in pytree.tree_leaves(batch) if hasattr(x, "shape") and x.dim()]
        count += leaves[0].shape[0] if leaves else 1
    return found
