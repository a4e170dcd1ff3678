"""Which axes of the tensors in a call stay open."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

Call = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments."""


def open_axes(module: nn.Module, call: Call, shapes: Any) -> list[dict[int, Any]]:
    """Return the open axes of each leaf of ``call``, counted from the first, in pytree's order.

    Parameters
    ----------
    module
        Whose ``forward`` takes the call.
    call
        No tensor is in it twice (see :func:`.told_apart`).
    shapes
        As :func:`torch.export.export` takes ``dynamic_shapes``: by argument, or in their order.

    Returns
    -------
    By axis the :class:`torch.export.Dim`; nothing for constants, and for what no list, tuple or
    dictionary holds.
    """
    named = inspect.signature(module.forward).bind(*call[0], **call[1]).arguments
    every = shapes if isinstance(shapes, Mapping) else dict(zip(named, shapes or (), strict=False))
    found = {
        id(tensor): axes
        for name, value in named.items()
        for tensor, axes in _pairs(value, every.get(name))
    }
    return [found.get(id(leaf), {}) for leaf in pytree.tree_leaves(call)]


def _pairs(value: Any, axes: Any) -> Iterator[tuple[torch.Tensor, dict[int, Any]]]:
    """Yield the tensors of one argument, or of a part of it, and their open axes."""
    if isinstance(value, torch.Tensor):
        pairs = axes.items() if isinstance(axes, Mapping) else enumerate(axes or ())
        yield value, {axis % value.dim(): dim for axis, dim in pairs if dim is not None}
    elif isinstance(value, list | tuple) and isinstance(axes, list | tuple):
        for part, own in zip(value, axes, strict=False):
            yield from _pairs(part, own)
    elif isinstance(value, Mapping) and isinstance(axes, Mapping):
        for key, part in value.items():
            yield from _pairs(part, axes.get(key))


def inputs_of(program: torch.export.ExportedProgram) -> list[Any]:
    """Return the nodes of a program's inputs, one for each leaf of a call, constants too."""
    count = len(program.graph_signature.user_inputs)
    return program.graph.find_nodes(op="placeholder")[-count:] if count else []


def changed_call(
    program: torch.export.ExportedProgram, call: Call, change: Callable[[Any, Any], Any]
) -> Call:
    """Return ``call`` with what ``change`` makes of each leaf, and of its value in ``program``."""
    leaves, tree = pytree.tree_flatten(call)
    pairs = zip(leaves, inputs_of(program), strict=True)
    args, kwargs = tree.unflatten([change(leaf, n.meta.get("val")) for leaf, n in pairs])
    return args, kwargs
