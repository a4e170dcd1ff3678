"""Distillation: the pruned network learns to give what the dense one gives, no labels needed."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from torch import Tensor, nn

from tvm_sparse.base.batches import several
from tvm_sparse.errors import InputError
from tvm_sparse.pruning.compensation.calls import Batch, evaluating
from tvm_sparse.pruning.compensation.state import digest
from tvm_sparse.pruning.distillation.checkpoint import Checkpoint
from tvm_sparse.pruning.distillation.held_zeros import zeros_held
from tvm_sparse.pruning.distillation.losses import Loss, loss_of
from tvm_sparse.pruning.distillation.precision import Precision, resolved
from tvm_sparse.pruning.distillation.training import (
    Backward,
    Plan,
    Progress,
    Training,
    unwrapped,
)

USUAL = {"blocks": 0.3, "attention": 0.3, "outputs": 1.0, "cosine": 5.0}
"""Weights of the terms where none are given; they were compared on a sentence encoder."""


def distil(
    student: nn.Module,
    teacher: nn.Module,
    batches: Iterable[Batch],
    steps: int | None = None,
    *,
    seconds: float | None = None,
    rate: float = 1e-3,
    losses: Mapping[str, float] | None = None,
    match: Sequence[str] | None = None,
    precision: Precision = "auto",
    average: float | None = None,
    accumulate: int = 1,
    resume: str | Path | None = None,
    backward: Backward = Tensor.backward,
    progress: Progress = lambda step, steps, loss: None,
) -> list[float]:
    """Train ``student`` so that it gives what ``teacher`` gives, inside and out; zeros stay zero.

    AdamW without weight decay, the rate rises over the first twentieth of the run and falls to
    zero as a cosine, gradients are clipped to norm 1. Dropout is off and batch norms keep their
    statistics; embeddings are not trained.

    Parameters
    ----------
    student
        A pruned copy of ``teacher``, trained in place. Masks that are attached hold; zeros in
        plain weights hold, too. It may be wrapped (``DistributedDataParallel``, ``accelerate``).
    teacher
        The dense network; not changed.
    batches
        Like those of :func:`.one_shot`, without labels; begun again when they end. Sequences of
        equal lengths waste nothing: see :func:`.batches_by_length`.
    steps
        Steps of the optimizer.
    seconds
        The run ends after so much time. With ``steps`` as well: after what comes first.
    rate
        The largest learning rate.
    losses
        Weights of the terms of the loss, by name. Tokens that the batch's ``attention_mask``
        leaves out do not count.

        ``"blocks"``, ``"attention"``, ``"outputs"``: ``||s - t||^2 / ||t||^2`` of the outputs of
        each repeated block, of the attention layer in each, and of the network. Where nothing is
        repeated, eight layers are compared instead of blocks. ``"cosine"``: 1 -
        cosine of the network's first output, for (samples, tokens, features) of its means over the
        tokens. ``"kl"``: divergence of the classes, where that output is logits. Any other key is
        the name of a module, whose outputs are compared as those of blocks are.

        By default :data:`USUAL`, as far as the network has such modules.
    match
        Names of modules: the same as ``losses`` with these names and weights of 1.
    precision
        Of products: ``"bfloat16"`` (``torch.autocast``) or ``"float32"``. ``"auto"`` is the former
        on CPUs that have instructions for it, where it is several times as fast.
    average
        With 0.999, for example, the result is a moving average of the weights, each step counting
        0.1 %.
    accumulate
        Batches a step. They are compared together, so that some of one sample each, which is all
        that many ONNX files take, count as a batch of several.
    resume
        A file that keeps the state of the run, every minute and where it is interrupted. The next
        call with the same arguments goes on from there; ``batches`` must come in the same order.
    backward
        What computes gradients, for example ``accelerator.backward``.
    progress
        See :data:`Progress`.

    Returns
    -------
    The loss of each step.

    Raises
    ------
    InputError
        There is no batch, neither steps nor seconds, a name is unknown, the loss is not finite, or
        ``resume`` is the file of another run.
    """
    plan = Plan(steps, seconds, rate, resolved(precision, unwrapped(student)), average, accumulate)
    _check(plan)
    loss = _loss(unwrapped(student), losses, match)
    first, repeated = _again(batches)
    settings = {} if resume is None else _settings(student, teacher, plan, loss, first)
    with zeros_held(unwrapped(student)), evaluating(student), evaluating(teacher):
        training = Training(student, teacher, loss, plan)
        training.run(repeated, backward, progress, Checkpoint(resume, settings))
    return training.losses


def _check(plan: Plan) -> None:
    for name, value in {"steps": plan.steps, "seconds": plan.seconds}.items():
        if value is not None and value < 0:
            raise InputError(name, str(value), "0 or more")
    if plan.steps is None and plan.seconds is None:
        raise InputError("distillation", "has no end", "steps or seconds")
    if plan.accumulate < 1:
        raise InputError("accumulate", str(plan.accumulate), "1 or more")
    if plan.average is not None and not 0 <= plan.average < 1:
        raise InputError("average", str(plan.average), "at least 0, less than 1")


def _loss(
    student: nn.Module, losses: Mapping[str, float] | None, match: Sequence[str] | None
) -> Loss:
    if losses is not None and match is not None:
        raise InputError("match", "given with losses", "one of both", "write names into losses")
    if match is not None:
        losses = dict.fromkeys(match, 1.0)
    return loss_of(student, USUAL if losses is None else losses, optional=losses is None)


def _settings(
    student: nn.Module, teacher: nn.Module, plan: Plan, loss: Loss, batch: Batch
) -> dict[str, str]:
    """Return what a run that is gone on with must have in common with this one."""
    weights = [weight for weight, _, _ in loss.parts]
    return {
        "plan": repr(plan),
        "loss": repr((loss.names, weights)),
        "student": digest([unwrapped(student).state_dict()]),
        "teacher": digest([unwrapped(teacher).state_dict()]),
        "first batch": digest([batch]),
    }


def _again(batches: Iterable[Batch]) -> tuple[Batch, Iterator[Batch]]:
    """Return the first of ``batches``, and all over and over; an iterator is kept for that."""
    kept = several("distillation", batches)
    return kept[0], itertools.cycle(kept)
