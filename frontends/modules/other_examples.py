"""Examples of other sizes: a model whose example is a whole number of blocks asks whether it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.export import Dim
from torch.utils import _pytree as pytree

from tvm_sparse.frontends.modules.open_axes import Call, open_axes
from tvm_sparse.frontends.modules.untraced import failure_of

_LEAST = 3
"""The least size that stands for the others: PyTorch answers otherwise for one, and perhaps two."""


def examples_of(module: nn.Module, call: Call, shapes: Any) -> Iterator[Call]:
    """Yield ``call``, and then one whose open axes are one smaller, or larger where need be.

    A model that pads ``x`` if ``x.shape[1] % 8`` is traced without the padding where the example
    has whole blocks, and is then one for multiples of eight alone. With another example it pads by
    what follows from the extent, which may be nothing. For the arguments see :func:`.open_axes`.
    """
    yield call
    leaves, tree = pytree.tree_flatten(call)
    moved = list(map(_moved, leaves, open_axes(module, call, shapes)))
    if any(new is not old for new, old in zip(moved, leaves, strict=True)):
        args, kwargs = tree.unflatten(moved)
        if failure_of(module, (args, kwargs)) is None:
            yield args, kwargs


def _moved(value: Any, axes: dict[int, Any]) -> Any:
    for axis, dim in axes.items():
        if isinstance(dim, Dim) and not hasattr(dim, "root"):
            rows = torch.arange(_beside(dim, value.shape[axis]), device=value.device)
            value = value.index_select(axis, rows % value.shape[axis])
    return value


def _beside(dim: Any, size: int) -> int:
    """Return a size of ``dim`` next to ``size``; this one if there is none."""
    if size - 1 >= max(dim.min, _LEAST):
        return size - 1
    return size + 1 if size < dim.max else size
