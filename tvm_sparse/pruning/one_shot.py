"""One-shot pruning: layer by layer, from calibration data alone, without training."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from tvm_sparse.base.batches import several
from tvm_sparse.base.freed import give_back
from tvm_sparse.errors import InputError
from tvm_sparse.pruning.compensation.calls import Batch, evaluating
from tvm_sparse.pruning.compensation.collect import collect
from tvm_sparse.pruning.compensation.layer import Compensation, Pruned
from tvm_sparse.pruning.compensation.stages import Stage, stages_of
from tvm_sparse.pruning.compensation.starts import Starts
from tvm_sparse.pruning.compensation.state import State, digest
from tvm_sparse.pruning.compensation.swaps import ROUNDS
from tvm_sparse.pruning.copies import copied
from tvm_sparse.pruning.layers import PrunableLayer, Selection
from tvm_sparse.pruning.masks import WeightMask
from tvm_sparse.pruning.methods.base import Method, Proposal
from tvm_sparse.pruning.pruner import Pruner

Progress = Callable[[str, int, int, float], None]
"""Called as ``progress(layer, done, layers, seconds_left)`` after each layer."""


def one_shot(
    model: nn.Module,
    calibration: Iterable[Batch],
    method: Method,
    *,
    damping: float = 0.01,
    steps: int = 30,
    reference: float = 0.5,
    swaps: int = ROUNDS,
    sparsities: Mapping[str, float] | None = None,
    include: Sequence[str] = ("*",),
    ignore: Sequence[str] = (),
    resume: str | Path | None = None,
    progress: Progress = lambda layer, done, layers, seconds_left: None,
) -> Pruner:
    """Prune a trained ``model`` once, choosing masks by their effect and adapting what remains.

    Layers are pruned in the order in which they run. Each one reads its inputs ``X`` in the
    network pruned so far. Masks are those of ``method``, which ranks ``w^2 / diag(H^-1)`` with
    ``H = X^T X`` instead of magnitudes (optimal brain surgeon, Hassibi and Stork, 1992). It goes
    from left to right as SparseGPT does (Frantar and Alistarh, 2023). Conjugate gradients then find
    the weights ``V`` on the mask that minimise ``||X V^T - Y||^2``. The wanted outputs ``Y`` lie
    between those of the dense weights on ``X`` and those of the dense network. Kept and pruned
    weights change places while that makes the minimum smaller.

    Methods that decide for several layers at once (``filters``, ``deprune``, ``rounding="reach"``,
    a global threshold) choose their masks first, as they always do; what remains adapts likewise.

    Parameters
    ----------
    model
        Pruned in place. A second copy of it is held meanwhile.
    calibration
        Batches like those the model will see, without labels: tensors, sequences of positional
        or mappings of keyword arguments. A few hundred samples do. Tokens that the batch's
        ``attention_mask`` leaves out do not count.
    method
        What masks look like, for example ``BalancedPruning(0.75)`` or ``PatternPruning(Block(16,
        1), 0.5)``.
    damping
        Fraction of its mean that is added to the diagonal of ``H``: how much the new weights
        mistrust the calibration data.
    steps
        Iterations of conjugate gradients a layer.
    reference
        Where the wanted outputs lie. 0: what the dense weights make of the inputs as they now are.
        1: what the dense network has there, which makes up for the layers before, but fits the
        calibration data more closely.
    swaps
        Rounds of swaps a layer at most; 0 leaves them out. In a swap, a kept weight and a pruned
        one of its bank change places because the layer's outputs lose less so. Of blocks, a kept
        and a pruned one of the same rows do. No layer gets worse, and the pattern stays.
    sparsities
        Sparsities of single layers by the name of their parameter, in place of the method's; those
        of :func:`.layer_sparsities`, for example.
    include, ignore
        Globs over the fully qualified names of layers; ``ignore`` wins.
    resume
        A directory that keeps every finished layer. A run that was interrupted goes on from it;
        one with another method, model or calibration data is refused.
    progress
        See :data:`Progress`.

    Returns
    -------
    The pruner, with masks attached, so that the model can be trained further, and a report whose
    notes say what each layer lost. ``squash_mask()`` writes the zeros into plain weights.

    Raises
    ------
    InputError
        No calibration data, or some that is not finite; the model is then as it was.
    """
    batches = batches_of(calibration)
    masked = {id(m) for m in model.modules() if isinstance(m, WeightMask)}
    pruner = Pruner(model, method, include=include, ignore=ignore)
    dense = copied(model)
    compensation = Compensation(method, damping, steps, reference, swaps, dict(sparsities or {}))
    try:
        _check_names(compensation, pruner.selection)
        settings = _settings(model, batches, compensation) if resume is not None else {}
        prune_beside(dense, model, batches, pruner, compensation, State(resume, settings), progress)
    except BaseException:
        model.load_state_dict(dense.state_dict())
        pruner.detach(masked)
        raise
    return pruner


def prune_beside(  # noqa: PLR0917 (what one_shot gathers)
    dense: nn.Module,
    model: nn.Module,
    batches: Sequence[Batch],
    pruner: Pruner,
    compensation: Compensation,
    state: State,
    progress: Progress = lambda layer, done, layers, seconds_left: None,
) -> None:
    """Prune every layer of ``model``, whose weights are still those of the ``dense`` one.

    See :func:`one_shot`. They may share all tensors but the weights that are pruned.
    """
    with evaluating(model), evaluating(dense):
        _OneShot(Starts(model, dense, batches), pruner, compensation).all(state, progress)


def batches_of(calibration: Iterable[Batch]) -> list[Batch]:
    """Return the batches of ``calibration``; see :func:`.several`."""
    return list(several("calibration", calibration))


def _check_names(compensation: Compensation, selection: Selection) -> None:
    """Refuse sparsities of layers that are not pruned, and of methods that have none a layer."""
    layers = {layer.key: layer for layer in selection}
    for name in compensation.sparsities:
        if name not in layers:
            raise InputError("sparsities", f"'{name}' is not pruned", ", ".join(list(layers)[:3]))
        compensation.method_of(layers[name])


class _OneShot:
    """One call of :func:`one_shot`."""

    def __init__(self, starts: Starts, pruner: Pruner, compensation: Compensation) -> None:
        self.starts, self.pruner, self.compensation = starts, pruner, compensation

    def all(self, state: State, progress: Progress) -> None:
        """Prune every layer."""
        selection, method = self.pruner.selection, self.compensation.method
        given = {} if method.local else method.propose(selection, 1.0, {})
        layers = [layer for layer in selection if method.local or layer.key in given]
        stages, silent = stages_of(self.starts.model, layers, self.starts.batches[0])
        proposals = {**given}
        done, begin, swaps = 0, time.monotonic(), _Swaps()
        for stage in stages:
            for layer, pruned in self._stage(stage, given, state):
                note = f"{pruned.loss:.2%} of its output lost"
                old = f"{pruned.proposal.note}, " if pruned.proposal.note else ""
                proposals[layer.key] = replace(pruned.proposal, note=old + note)
                swaps.add(pruned)
                done += 1
                left = (time.monotonic() - begin) / done * (len(layers) - len(silent) - done)
                progress(layer.key, done, len(layers) - len(silent), left)
            give_back()  # what the stage was fitted with
        reason = "is not called on the calibration data"
        note = swaps.note(time.monotonic() - begin)
        self.pruner.finish(proposals, {layer.name: reason for layer in silent}, note)

    def _stage(
        self, stage: Stage, given: Mapping[str, Proposal], state: State
    ) -> Iterator[tuple[PrunableLayer, Pruned]]:
        """Yield the layers of ``stage``, pruned; those in ``state`` are not computed again."""
        found = {layer.key: state.find(layer.key, layer.weight) for layer in stage.layers}
        statistics = {}
        if None in found.values():
            statistics = collect(stage, self.starts)
        for layer in stage.layers:
            pruned = found[layer.key]
            if pruned is None:
                pruned = self.compensation.prune(
                    layer, self.pruner.selection, statistics[layer.key], given.get(layer.key)
                )
                state.keep(layer.key, pruned)
            self.pruner.adopt(layer, pruned.proposal.mask, pruned.weight)
            yield layer, pruned


@dataclass
class _Swaps:
    """What swaps did in all layers that were computed."""

    moved: int = 0
    kept: int = 0
    seconds: float = 0.0

    def add(self, pruned: Pruned) -> None:
        """Count one layer."""
        self.moved += pruned.moved
        self.kept += int(pruned.proposal.mask.sum())
        self.seconds += pruned.seconds

    def note(self, seconds: float) -> str:
        """Return a sentence, given the ``seconds`` that all took."""
        if not self.moved:
            return ""
        share, moved = self.seconds / seconds, self.moved / self.kept
        return f"Swaps moved {moved:.1%} of the kept weights, in {share:.0%} of the time."


def _settings(model: nn.Module, batches: list[Batch], compensation: Compensation) -> dict[str, Any]:
    """Return what a run that is gone on with must have in common with this one."""
    return {
        "method": repr(compensation.method),
        "damping": compensation.damping,
        "steps": compensation.steps,
        "reference": compensation.reference,
        "swaps": compensation.swaps,
        "sparsities": compensation.sparsities,
        "model": digest([model.state_dict()]),
        "calibration": digest(batches),
    }
