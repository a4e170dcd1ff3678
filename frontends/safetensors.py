"""A model factory and a safetensors file: the form that runs no code out of the weights."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from torch import nn

from tvm_sparse.errors import InputError

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
        file = SafetensorsFile(weights)
        _fill(module, {name: file.tensor(name) for name in file.names}, str(weights))
    return module


class SafetensorsFile:
    """The weights in a safetensors file by name, each read when asked for.

    Pairs ``<name>_orig`` and ``<name>_mask``, which :mod:`torch.nn.utils.prune` leaves while a
    mask is attached, appear as their product ``<name>``.

    Raises
    ------
    InputError
        The file is missing or damaged.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise InputError(str(path), "no such file", "a .safetensors file", "check the path")
        try:
            self._file: Any = safe_open(path, framework="pt")
        except (SafetensorError, OSError) as error:
            raise InputError(
                str(path), f"is no sound safetensors file ({error})", "", "save the weights again"
            ) from error
        stored = list(self._file.keys())
        bases = {n.removesuffix("_mask") for n in stored if n.endswith("_mask")}
        self._masked = {base for base in bases if f"{base}_orig" in stored}
        hidden = {f"{base}_mask" for base in self._masked}
        self.names = tuple(self._plain(name) for name in stored if name not in hidden)

    def _plain(self, stored: str) -> str:
        base = stored.removesuffix("_orig")
        return base if base in self._masked else stored

    def masked(self, name: str) -> bool:
        """Whether a mask is attached to ``name``."""
        return name in self._masked

    def tensor(self, name: str) -> torch.Tensor:
        """Return the effective value of ``name``."""
        if not self.masked(name):
            return self._file.get_tensor(name)
        return self._file.get_tensor(f"{name}_orig") * self._file.get_tensor(f"{name}_mask")

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of ``name``, without reading it."""
        return tuple(self._slice(name).get_shape())

    def is_floating(self, name: str) -> bool:
        """Whether the values of ``name`` are floating-point numbers."""
        return self._slice(name).get_dtype().startswith(("F", "BF"))

    def _slice(self, name: str) -> Any:
        return self._file.get_slice(f"{name}_orig" if self.masked(name) else name)


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
