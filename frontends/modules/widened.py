"""Examples of one in an open axis, made two: PyTorch traces a size of one as a number."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.export import Dim
from torch.utils import _pytree as pytree

from tvm_sparse.frontends.modules.asked_sizes import Call
from tvm_sparse.frontends.modules.untraced import failure_of

_TRACED = 2
"""The least size that stands for the others."""


def widened(module: nn.Module, call: Call, shapes: Any) -> Call:
    """Return ``call`` with two samples where an axis that ``shapes`` opens has one in it.

    Parameters
    ----------
    module
        Whose ``forward`` takes the call.
    call
        Positional and keyword arguments.
    shapes
        As :func:`torch.export.export` takes ``dynamic_shapes``, by argument or in their order.

    Returns
    -------
    The arguments; ``call`` itself where there is no such axis, or the model does not run on two.
    """
    named = inspect.signature(module.forward).bind(*call[0], **call[1])
    every = shapes if isinstance(shapes, Mapping) else dict(zip(named.arguments, shapes or ()))
    for name, value in named.arguments.items():
        named.arguments[name] = _widened(value, every.get(name))
    several = named.args, named.kwargs
    same = all(map(operator.is_, pytree.tree_leaves(several), pytree.tree_leaves(call)))
    return call if same or failure_of(module, several) else several


def _widened(value: Any, axes: Any) -> Any:
    """Return one argument, or a part of it, with two samples in each open axis of one."""
    if isinstance(value, torch.Tensor):
        pairs = axes.items() if isinstance(axes, Mapping) else enumerate(axes or ())
        for axis, dim in pairs:
            if isinstance(dim, Dim) and _is_of_one(dim, value.shape[axis]):
                samples = torch.arange(_size(dim, _TRACED)) % value.shape[axis]
                value = value.index_select(axis, samples.to(value.device))
    elif type(value) in (list, tuple) and isinstance(axes, list | tuple):
        value = type(value)(map(_widened, value, axes))
    elif type(value) is dict and isinstance(axes, Mapping):
        value = {key: _widened(part, axes.get(key)) for key, part in value.items()}
    return value


def _is_of_one(dim: Any, extent: int) -> bool:
    """Whether ``extent`` is that of a dimension of one, which may be two as well."""
    root = getattr(dim, "root", dim)
    return _size(dim, 1) == extent and root.min <= _TRACED <= root.max


def _size(dim: Any, size: int) -> int:
    """Return the extent of ``dim`` where the dimension that it is derived from has ``size``."""
    return int(dim.fn(size)) if hasattr(dim, "root") else size
