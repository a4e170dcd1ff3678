"""Distillation: the pruned network learns to give what the dense one gives, no labels needed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from tvm_sparse.errors import InputError
from tvm_sparse.pruning.compensation.calls import Batch, attended, evaluating, run
from tvm_sparse.pruning.layers import matrices_of
from tvm_sparse.pruning.masks import attach_mask, find_mask, squash_mask

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
    inner = _unwrapped(student)
    names = blocks_of(inner) if match is None else list(match)
    pairs = [(_named(inner, name), _named(_unwrapped(teacher), name)) for name in names]
    fixed = {id(p) for m in inner.modules() if isinstance(m, nn.Embedding) for p in m.parameters()}
    held = _hold_zeros(inner)
    trained = [p for p in student.parameters() if p.requires_grad and id(p) not in fixed]
    optimizer = torch.optim.AdamW(trained, lr=rate, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _factor(step, steps))
    losses = []
    try:
        with evaluating(student), evaluating(teacher):
            for step, batch in enumerate(itertools.islice(_again(batches), steps)):
                with torch.no_grad():
                    wanted = _states(teacher, [t for _, t in pairs], batch)
                found = _states(student, [s for s, _ in pairs], batch)
                loss = _distance(found, wanted, batch)
                losses.append(loss.item())
                if not math.isfinite(losses[-1]):
                    raise InputError(
                        "distillation",
                        f"the loss is {losses[-1]} at step {step}",
                        "a finite one",
                        "lower the rate, and check that the batches are finite",
                    )
                optimizer.zero_grad()
                backward(loss)
                nn.utils.clip_grad_norm_(trained, 1.0)
                optimizer.step()
                schedule.step()
                progress(step + 1, steps, losses[-1])
    finally:
        for module, parameter in held:
            squash_mask(module, parameter)
    return losses


def blocks_of(model: nn.Module) -> list[str]:
    """Return the names of the repeated blocks of ``model``, and ``""`` for itself."""
    lists = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, nn.ModuleList | nn.Sequential)
        and len(module) > 1
        and len({type(child) for child in module}) == 1
        and next(module[0].children(), None) is not None
    ]
    if not lists:
        return [""]
    name, longest = max(lists, key=lambda item: len(item[1]))
    return [*(f"{name}.{i}".lstrip(".") for i in range(len(longest))), ""]


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


def _hold_zeros(model: nn.Module) -> list[tuple[nn.Module, str]]:
    """Mask the zeros of plain weights, and return where masks were attached for that."""
    held = []
    for name, module in model.named_modules():
        for layer in matrices_of(name, module):
            kept = getattr(module, layer.parameter).detach() != 0
            if find_mask(module, layer.parameter) is None and not bool(kept.all()):
                attach_mask(module, layer.parameter).mask.copy_(kept)
                held.append((module, layer.parameter))
    return held


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


def _states(model: nn.Module, modules: Sequence[nn.Module], batch: Batch) -> list[list[Tensor]]:
    """Return the floating-point outputs of each of ``modules`` when ``model`` runs."""
    found: dict[int, list[Tensor]] = {}

    def see(module: nn.Module, _: Any, output: Any) -> None:
        leaves = pytree.tree_leaves(output)
        found.setdefault(id(module), []).extend(
            x for x in leaves if isinstance(x, Tensor) and x.is_floating_point()
        )

    handles = [module.register_forward_hook(see) for module in modules]
    try:
        run(model, batch)
    finally:
        for handle in handles:
            handle.remove()
    return [found.get(id(module), []) for module in modules]


def _distance(found: list[list[Tensor]], wanted: list[list[Tensor]], batch: Batch) -> Tensor:
    """Return the loss of all matched outputs."""
    terms = []
    for states, targets in zip(found, wanted, strict=True):
        for state, target in zip(states, targets, strict=True):
            s, t = attended(state, batch).float(), attended(target, batch).float()
            terms.append((s - t).square().sum() / t.square().sum().clamp(min=1e-12))
    if not terms:
        raise InputError("match", "no output to compare", "modules that the network calls")
    return torch.stack(terms).sum()
