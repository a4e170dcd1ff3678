"""Slices whose ends or steps follow from open extents, in forms whose length PyTorch knows."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import statically_known_true


def sliced(x: Tensor, axis: int = 0, start: Any = None, end: Any = None, step: Any = 1) -> Tensor:
    """Return the slice of one axis, as ``aten.slice`` does.

    before: ``x[:, : n - n % 4]``, of which PyTorch cannot tell a length --> after: an end that
    counts from the first element, and is not below zero

    before: ``x[:, :: n // 4]`` --> after: a gather of places ``n // 4 * arange(...)``

    Whether an end counts from the last element is decided as for the example; PyTorch notes that
    as a condition on the extents.
    """
    extent = x.shape[axis]
    start, end = _end(start, extent), _end(end, extent)
    if not isinstance(step, torch.SymInt):
        return torch.ops.aten.slice.Tensor(x, axis, start, end, step)
    whole = torch.ops.aten.slice.Tensor(x, axis, start, end, 1)
    count = (whole.shape[axis] + step - 1) // step
    return whole.index_select(axis, torch.arange(count, device=x.device) * step)


def _end(end: Any, extent: Any) -> Any:
    """Return one end of a slice, which counts from the first element where it is open."""
    if not isinstance(end, torch.SymInt) or statically_known_true(end == sys.maxsize):
        return end
    end = extent + end if end < 0 else end
    return end if statically_known_true(end >= 0) else torch.sym_max(end, 0)
