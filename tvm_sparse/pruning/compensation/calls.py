"""Running a model up to the layers that are looked at."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from tvm_sparse.errors import InputError, SparseError

Batch: TypeAlias = Any
"""A tensor, a sequence of positional arguments, or a mapping of keyword arguments."""

Call: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments of one call of a module."""


class _Reached(Exception):
    """The last call that was asked for begins."""


def call_of(batch: Batch) -> Call:
    """Return ``batch`` as arguments of a model."""
    if isinstance(batch, Tensor):
        return (batch,), {}
    if isinstance(batch, Mapping):
        return (), dict(batch)
    return tuple(batch), {}


def parted(batches: Sequence[Batch]) -> tuple[list[Batch], list[Batch]]:
    """Return the batches that weights are fitted to, and those that networks are judged on."""
    count = len(batches) // 4 or 1
    return (list(batches[:-count]), list(batches[-count:])) if batches[1:] else (list(batches),) * 2


def run(model: nn.Module, batch: Batch) -> Any:
    """Call ``model`` with ``batch``."""
    args, kwargs = call_of(batch)
    return model(*args, **kwargs)


def watch(
    model: nn.Module,
    call: Call,
    modules: Iterable[nn.Module],
    see: Callable[[nn.Module, Call], None],
    count: int | None = None,
) -> None:
    """Run ``model`` with ``call`` and tell ``see`` of each call of ``modules`` as it begins.

    The run ends with call number ``count``, so that what follows costs nothing.
    """
    given_args, given_kwargs = call
    seen = 0

    def told(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        nonlocal seen
        see(module, (args, kwargs))
        seen += 1
        if seen == count:
            raise _Reached

    handles = [m.register_forward_pre_hook(told, with_kwargs=True) for m in modules]
    try:
        with torch.no_grad(), _by_modules(), contextlib.suppress(_Reached):
            model(*given_args, **given_kwargs)
    except SparseError:
        raise
    except Exception as error:  # of the user's model
        raise _not_run(error) from error
    finally:
        for handle in handles:
            handle.remove()


def _not_run(error: Exception) -> InputError:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(" .")
    return InputError(
        "calibration",
        f"the model does not run on a batch ({reason})",
        "tensors, sequences or mappings of arguments that the model takes",
        "call the model on a batch first",
    )


def returned(module: nn.Module, call: Call) -> Any:
    """Return what ``module`` returns to ``call``, computed by its modules, without gradients."""
    args, kwargs = call
    with torch.no_grad(), _by_modules():
        return module(*args, **kwargs)


@contextlib.contextmanager
def _by_modules() -> Iterator[None]:
    """Keep transformer layers from their fused path, which calls none of their modules."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


@contextlib.contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put ``model`` into evaluation mode, and its modules back into their own afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def attended(inputs: Tensor, batch: Batch) -> Tensor:
    """Return the rows of ``inputs`` that the batch's ``attention_mask`` (batch, tokens) keeps.

    Padding says nothing about the data. Inputs of another shape keep all their rows.
    """
    mask = batch.get("attention_mask") if isinstance(batch, Mapping) else None
    if isinstance(mask, Tensor) and inputs.dim() == 3 and mask.shape == inputs.shape[:2]:
        return inputs[mask.bool()]
    return inputs.reshape(-1, inputs.shape[-1]) if inputs.dim() else inputs
