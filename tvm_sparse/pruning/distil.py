"""Distillation: the pruned network learns to give what the dense one gives, no labels needed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import torch
from torch import Tensor, nn

from tvm_sparse.errors import InputError
from tvm_sparse.pruning.blocks import blocks_of
from tvm_sparse.pruning.compensation.calls import Batch, evaluating
from tvm_sparse.pruning.held_zeros import zeros_held
from tvm_sparse.pruning.hidden_states import distance, states_of

Pairs: TypeAlias = list[tuple[nn.Module, nn.Module]]
Backward = Callable[[Tensor], object]
Progress = Callable[[int, int, float], None]
"""Called as ``progress(step, steps, loss)`` after each step."""


def distil(
    student: nn.Module,
    teacher: nn.Module,
    batches: Iterable[Batch],
    steps: int,
    *,
    rate: float = 1e-3,
    match: Sequence[str] | None = None,
    backward: Backward = Tensor.backward,
    progress: Progress = lambda step, steps, loss: None,
) -> list[float]:
    """Train ``student`` so that its hidden states are those of ``teacher``; zeros stay zero.

    The loss is the sum over all matched modules of ``||s - t||^2 / ||t||^2`` (tokens that the
    batch's ``attention_mask`` leaves out do not count). AdamW without weight decay, the rate rises
    over the first twentieth of the steps and falls to zero as a cosine, gradients are clipped to
    norm 1. Dropout is off and batch norms keep their statistics; embeddings are not trained.

    Parameters
    ----------
    student
        A pruned copy of ``teacher``, trained in place. Masks that are attached hold; zeros in
        plain weights hold, too. It may be wrapped (``DistributedDataParallel``, ``accelerate``).
    teacher
        The dense network; not changed.
    batches
        Like those of :func:`.one_shot`, without labels; begun again when they end.
    steps
        Steps of the optimizer, one batch each.
    rate
        The largest learning rate.
    match
        Names of modules whose outputs are compared. By default the repeated blocks of the network
        (the elements of its longest ``ModuleList`` or ``Sequential`` of equal classes) and the
        network itself.
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
        There is no batch, a name in ``match`` is unknown, or the loss is not finite.
    """
    pairs = _matched(student, teacher, match)
    losses: list[float] = []
    with zeros_held(_unwrapped(student)), evaluating(student), evaluating(teacher):
        training = _Training(student, teacher, pairs, rate, steps)
        for batch in itertools.islice(_again(batches), steps):
            losses.append(training.step(batch, backward))
            progress(len(losses), steps, losses[-1])
    return losses


class _Training:
    """The optimizer of one call of :func:`distil`, and what it minimises."""

    def __init__(
        self,
        student: nn.Module,
        teacher: nn.Module,
        pairs: Pairs,
        rate: float,
        steps: int,
    ) -> None:
        self.student, self.teacher, self.trained = student, teacher, _trained(student)
        self.of_student, self.of_teacher = ([pair[side] for pair in pairs] for side in (0, 1))
        self.optimizer = torch.optim.AdamW(self.trained, lr=rate, weight_decay=0.0)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: _factor(step, steps)
        )

    def step(self, batch: Batch, backward: Backward) -> float:
        """Train with one batch and return its loss; one that is not finite is refused."""
        with torch.no_grad():
            wanted = states_of(self.teacher, self.of_teacher, batch)
        loss = distance(states_of(self.student, self.of_student, batch), wanted, batch)
        value = loss.item()
        if not math.isfinite(value):
            raise InputError(
                "distillation",
                f"the loss is {value} at step {self.schedule.last_epoch}",
                "a finite one",
                "lower the rate, and check that the batches are finite",
            )
        self.optimizer.zero_grad()
        backward(loss)
        nn.utils.clip_grad_norm_(self.trained, 1.0)
        self.optimizer.step()
        self.schedule.step()
        return value


def _matched(student: nn.Module, teacher: nn.Module, match: Sequence[str] | None) -> Pairs:
    """Return the modules whose outputs are compared."""
    student, teacher = _unwrapped(student), _unwrapped(teacher)
    names = [*blocks_of(student), ""] if match is None else match
    return [(_named(student, name), _named(teacher, name)) for name in names]


def _trained(student: nn.Module) -> list[nn.Parameter]:
    """Return the parameters of ``student`` but those of embeddings."""
    tables = (m for m in student.modules() if isinstance(m, nn.Embedding))
    fixed = {id(p) for table in tables for p in table.parameters()}
    return [p for p in student.parameters() if p.requires_grad and id(p) not in fixed]


def _named(model: nn.Module, name: str) -> nn.Module:
    try:
        return model.get_submodule(name)
    except AttributeError as error:
        raise InputError(
            f"match '{name}'", "is no module of the network", "a fully qualified name"
        ) from error


def _unwrapped(model: nn.Module) -> nn.Module:
    parallel = nn.parallel.DistributedDataParallel | nn.DataParallel
    return model.module if isinstance(model, parallel) else model


def _factor(step: int, steps: int) -> float:
    """Return the fraction of the largest rate at ``step``."""
    rise = max(1, steps // 20)
    if step < rise:
        return (step + 1) / rise
    return 0.5 * (1 + math.cos(math.pi * (step - rise) / max(1, steps - rise)))


def _again(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yield ``batches`` over and over; an iterator is kept for that."""
    kept = batches if isinstance(batches, Sequence) else list(batches)
    if not kept:
        raise InputError("distillation", "no batch", "some batches of inputs")
    return itertools.cycle(kept)
