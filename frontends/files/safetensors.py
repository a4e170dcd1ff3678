"""A module filled from safetensors: the form that runs no code out of the weights."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from tvm_sparse.errors import InputError
from tvm_sparse.frontends.files.checkpoint import Checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable

_SHOWN = 5


def load_factory(factory: str, weights: Path | None = None) -> nn.Module:
    """Return the module that ``pkg.module:factory`` makes, filled with ``weights``.

    The module is imported with the working directory in front of the path: naming a factory runs
    its code.

    Raises
    ------
    InputError
        The factory cannot be imported or fails; weights are missing, unexpected or of another
        shape.
    """
    module = _call(factory)
    if weights is not None:
        fill(module, weights)
    return module


def fill(module: nn.Module, weights: str | Path) -> None:
    """Copy the weights of a :class:`.Checkpoint` into ``module``.

    Raises
    ------
    InputError
        Weights are missing, unexpected or of another shape; ``module`` is as it was then.
    """
    file = Checkpoint(Path(weights))
    _fill(module, {name: file.tensor(name) for name in file.names}, str(weights))


def _call(factory: str) -> nn.Module:
    name, _, attribute = factory.partition(":")
    todo = "check the name, and that the module is in the working directory or installed"
    try:
        with _working_directory_first():
            function: Callable[[], Any] = getattr(importlib.import_module(name), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"factory '{factory}'", str(error), "pkg.module:function that returns a module", todo
        ) from error
    try:
        module = function()
    except Exception as error:
        raise InputError(
            f"factory '{factory}'",
            f"fails with {type(error).__name__}: {error}",
            "a function that can be called without arguments",
        ) from error
    if not isinstance(module, nn.Module):
        raise InputError(
            f"factory '{factory}'", f"returns a {type(module).__name__}", "a torch.nn.Module"
        )
    return module


@contextmanager
def _working_directory_first() -> Iterator[None]:
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)


def _fill(module: nn.Module, values: dict[str, torch.Tensor], where: str) -> None:
    """Copy ``values`` into ``module``; each name must fit, aliases of a shared weight need not."""
    own = module.state_dict()
    present = {own[name].data_ptr() for name in own.keys() & values.keys()}
    missing = [n for n in own if n not in values and own[n].data_ptr() not in present]
    unexpected = [n for n in values if n not in own]
    todo = "use the factory that the weights were saved from, with masks squashed"
    if missing or unexpected:
        parts = [f"lacks {_some(missing)}"] if missing else []
        parts += [f"has unexpected {_some(unexpected)}"] if unexpected else []
        raise InputError(where, " and ".join(parts), "the names of the factory's model", todo)
    for name, value in values.items():
        if value.shape != own[name].shape or not _fits(value.dtype, own[name].dtype):
            raise InputError(
                f"{where}: '{name}'",
                f"is {_type(value)}",
                f"{_type(own[name])} as the factory's model has it",
                todo,
            )
    module.load_state_dict(values, strict=False)


def _fits(found: torch.dtype, wanted: torch.dtype) -> bool:
    return found == wanted or (found.is_floating_point and wanted.is_floating_point)


def _type(value: torch.Tensor) -> str:
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"


def _some(names: Iterable[str]) -> str:
    names = list(names)
    rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(f"'{name}'" for name in names[:_SHOWN]) + rest
