"""What each layer loses with each candidate, and how much the network's outputs mind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from torch import nn
from torch.utils import _pytree as pytree

from tvm_sparse.base.progress import ReportProgress
from tvm_sparse.errors import InputError
from tvm_sparse.planning.candidates import Candidate
from tvm_sparse.planning.costs import families
from tvm_sparse.planning.knapsack import Numbers, monotone
from tvm_sparse.planning.stitching import Stitched
from tvm_sparse.pruning.compensation.calls import Batch, evaluating
from tvm_sparse.pruning.compensation.collect import collect
from tvm_sparse.pruning.compensation.layer import Compensation
from tvm_sparse.pruning.compensation.stages import stages_of
from tvm_sparse.pruning.compensation.starts import Starts
from tvm_sparse.pruning.copies import copied
from tvm_sparse.pruning.layers import Selection, select
from tvm_sparse.pruning.masks import squashed_copy

SAMPLES = 64
"""Samples of the calibration data whose outputs are compared; statistics are of all."""

STEPS = 8
"""Of conjugate gradients a layer and candidate."""

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
    """Return a plain copy of ``model``, and its layers that run on the data.

    The first ones read all of the data: what they cannot read is told before anything takes long.
    """
    network = squashed_copy(model)
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
    """Prune each layer by itself with each candidate; return what is lost, and all the weights."""
    layers = list(selection)
    with evaluating(network):
        stages, _ = stages_of(network, layers, batches[0])
    changed = copied(network)
    twins = [replace(layer, module=changed.get_submodule(layer.name)) for layer in layers]
    stitched = Stitched(changed, twins, layers, samples(batches))
    errors = np.zeros((len(layers), len(candidates)))
    places = {layer.key: i for i, layer in enumerate(layers)}
    starts, done = Starts(network, network, batches), 0
    with evaluating(network):
        for stage in stages:
            statistics = collect(stage, starts)
            for layer in stage.layers:
                i = places[layer.key]
                for c, candidate in enumerate(candidates):
                    if candidate.method is None:
                        continue
                    how = Compensation(candidate.method, steps=STEPS, swaps=0, swept=False)
                    pruned = how.prune(layer, selection, statistics[layer.key])
                    errors[i, c] = pruned.loss
                    stitched.keep(i, c, pruned.weight)
                done += 1
                progress("losses of layers", done, len(layers))
    errors = rising(errors, candidates)
    return Losses(errors, _sensitivities(errors, stitched, progress)), stitched


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
