"""Examples of one in an open axis, made two: PyTorch traces a size of one as a number."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.export import Dim
from torch.utils import _pytree as pytree

from tvm_sparse.frontends.modules.open_axes import Call, open_axes
from tvm_sparse.frontends.modules.untraced import failure_of

_TRACED = 2
"""The least size that stands for the others."""


def widened(module: nn.Module, call: Call, shapes: Any) -> Call:
    """Return ``call`` with two samples where an axis that ``shapes`` opens has one in it.

    It is ``call`` itself where there is no such axis, or the model does not run on two. For the
    arguments see :func:`.open_axes`.
    """
    leaves, tree = pytree.tree_flatten(call)
    several = list(map(_widened, leaves, open_axes(module, call, shapes)))
    if all(new is old for new, old in zip(several, leaves, strict=True)):
        return call
    args, kwargs = tree.unflatten(several)
    return call if failure_of(module, (args, kwargs)) else (args, kwargs)


def _widened(value: Any, axes: dict[int, Any]) -> Any:
    """Return a leaf with two samples in each open axis of one."""
    for axis, dim in axes.items():
        if isinstance(dim, Dim) and _is_of_one(dim, value.shape[axis]):
            samples = torch.arange(_size(dim, _TRACED), device=value.device)
            value = value.index_select(axis, samples % value.shape[axis])
    return value


def _is_of_one(dim: Any, extent: int) -> bool:
    """Whether ``extent`` is that of a dimension of one, which may be two as well."""
    root = getattr(dim, "root", dim)
    return _size(dim, 1) == extent and root.min <= _TRACED <= root.max


def _size(dim: Any, size: int) -> int:
    """Return the extent of ``dim`` where the dimension that it is derived from has ``size``."""
    return int(dim.fn(size)) if hasattr(dim, "root") else size
