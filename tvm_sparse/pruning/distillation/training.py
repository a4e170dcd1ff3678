"""The loop of distillation: steps of an optimizer until their number or time is up."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tvm_sparse.errors import InputError
from tvm_sparse.pruning.compensation.calls import Batch
from tvm_sparse.pruning.distillation.checkpoint import Checkpoint
from tvm_sparse.pruning.distillation.losses import Loss
from tvm_sparse.pruning.distillation.precision import Precision, computing
from tvm_sparse.pruning.distillation.states import states_of

Backward = Callable[[Tensor], object]
Progress = Callable[[int, int, float], None]
"""Called as ``progress(step, steps, loss)`` after each step; ``steps`` is an estimate where time
ends the run."""

KEEP_EVERY = 60.0
"""Seconds between two states that are kept."""

_WARM = 0.05
"""Fraction of the run in which the rate rises."""


@dataclass(frozen=True)
class Plan:
    """How long and how a run trains; see :func:`.distil`."""

    steps: int | None
    seconds: float | None
    rate: float
    precision: Precision
    average: float | None
    accumulate: int = 1

    def fraction(self, step: int, elapsed: float) -> float:
        """Return how much of the run is over, 1 at its end."""
        parts = [] if self.steps is None else [step / self.steps if self.steps else 1.0]
        parts += [] if self.seconds is None else [elapsed / self.seconds if self.seconds else 1.0]
        return max(parts)

    def factor(self, fraction: float) -> float:
        """Return the fraction of the largest rate where ``fraction`` of the run is over."""
        fall = 0.5 * (1 + math.cos(math.pi * max(0.0, fraction - _WARM) / (1 - _WARM)))
        return min(fraction / _WARM + 0.01, fall)


class Training:
    """One run: ``student`` learns the outputs of the modules that ``loss`` compares."""

    def __init__(self, student: nn.Module, teacher: nn.Module, loss: Loss, plan: Plan) -> None:
        self.student, self.teacher, self.loss, self.plan = student, teacher, loss, plan
        self.of_student = [unwrapped(student).get_submodule(name) for name in loss.names]
        self.of_teacher = [_of_teacher(unwrapped(teacher), name) for name in loss.names]
        self.trained = _trained(student)
        self.optimizer = torch.optim.AdamW(
            self.trained, lr=plan.rate, weight_decay=0.0, fused=_fusable(self.trained)
        )
        self.average = None if plan.average is None else [p.detach().clone() for p in self.trained]
        self.losses: list[float] = []
        self.elapsed = 0.0

    def run(
        self, batches: Iterator[Batch], backward: Backward, progress: Progress, kept: Checkpoint
    ) -> None:
        """Train until the plan ends; where it is interrupted, the last whole step is kept."""
        state = kept.load()
        if state is not None:
            self._restore(state)
        together = self.plan.accumulate
        batches = itertools.islice(batches, len(self.losses) * together, None)
        begin = saved = time.monotonic()
        before, whole = self.elapsed, True
        fixed = _tables_fixed(self.student)
        try:
            while (over := self.plan.fraction(len(self.losses), self.elapsed)) < 1:
                whole = False
                group = list(itertools.islice(batches, together))
                self._step(group, self.plan.factor(over), backward)
                self.elapsed, whole = before + time.monotonic() - begin, True
                done = len(self.losses)
                share = self.plan.fraction(done, self.elapsed)
                progress(done, self.plan.steps or round(done / share), self.losses[-1])
                if time.monotonic() - saved > KEEP_EVERY:
                    kept.save(self._state())
                    saved = time.monotonic()
        finally:
            for parameter in fixed:
                parameter.requires_grad_()
            if whole:
                kept.save(self._state())
        if self.average is not None:
            with torch.no_grad():
                for own, found in zip(self.trained, self.average, strict=True):
                    own.copy_(found)

    def _step(self, batches: list[Batch], factor: float, backward: Backward) -> None:
        """Train with some batches at once; a loss that is not finite is refused."""
        with computing(self.plan.precision, self.student):
            with torch.no_grad():
                wanted = [states_of(self.teacher, self.of_teacher, batch) for batch in batches]
            found = [states_of(self.student, self.of_student, batch) for batch in batches]
            loss = self.loss(found, wanted, batches)
        if not loss.requires_grad:
            raise InputError(
                "distillation",
                "no output that is compared depends on a trained weight",
                "outputs with gradients",
                "compare other outputs: losses={...}",
            )
        value = loss.item()
        if not math.isfinite(value):
            raise InputError(
                "distillation",
                f"the loss is {value} at step {len(self.losses)}",
                "a finite one",
                "lower the rate, and check that the batches are finite",
            )
        self.optimizer.zero_grad()
        backward(loss)
        nn.utils.clip_grad_norm_(self.trained, 1.0)
        for group in self.optimizer.param_groups:
            group["lr"] = self.plan.rate * factor
        self.optimizer.step()
        if self.average is not None:
            assert self.plan.average is not None
            with torch.no_grad():
                for kept, own in zip(self.average, self.trained, strict=True):
                    kept.lerp_(own, 1 - self.plan.average)
        self.losses.append(value)

    def _state(self) -> dict[str, Any]:
        return {
            "losses": self.losses,
            "elapsed": self.elapsed,
            "parameters": [p.detach() for p in self.trained],
            "average": self.average,
            "optimizer": self.optimizer.state_dict(),
        }

    def _restore(self, state: dict[str, Any]) -> None:
        self.losses, self.elapsed = state["losses"], state["elapsed"]
        with torch.no_grad():
            for own, found in zip(self.trained, state["parameters"], strict=True):
                own.copy_(found)
            if self.average is not None:
                torch._foreach_copy_(self.average, state["average"])
        self.optimizer.load_state_dict(state["optimizer"])


def unwrapped(model: nn.Module) -> nn.Module:
    """Return the network inside of a wrapper for several devices."""
    parallel = nn.parallel.DistributedDataParallel | nn.DataParallel
    return model.module if isinstance(model, parallel) else model


def _of_teacher(teacher: nn.Module, name: str) -> nn.Module:
    try:
        return teacher.get_submodule(name)
    except AttributeError as error:
        raise InputError(
            "teacher",
            f"has no module '{name}', which the student has",
            "the dense network that the student was pruned from",
        ) from error


def _trained(student: nn.Module) -> list[nn.Parameter]:
    """Return the parameters of ``student`` but those of embeddings."""
    fixed = {id(p) for p in _tables(student)}
    return [p for p in student.parameters() if p.requires_grad and id(p) not in fixed]


def _tables(model: nn.Module) -> list[nn.Parameter]:
    """Return the parameters of the embeddings of ``model``."""
    return [p for m in model.modules() if isinstance(m, nn.Embedding) for p in m.parameters()]


def _tables_fixed(student: nn.Module) -> list[nn.Parameter]:
    """Stop computing the gradients of embeddings, which nothing uses; return what was stopped.

    A wrapper for several devices waits for them: there they are computed.
    """
    if unwrapped(student) is not student:
        return []
    stopped = [p for p in _tables(student) if p.requires_grad]
    for parameter in stopped:
        parameter.requires_grad_(False)
    return stopped


def _fusable(parameters: list[nn.Parameter]) -> bool:
    """Whether one kernel may update all of ``parameters``."""
    return all(p.is_floating_point() and p.device.type in ("cpu", "cuda") for p in parameters)
