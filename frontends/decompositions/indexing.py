"""Elements picked by integers and index tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tvm_sparse.frontends.decompositions.table import aten, rule


@rule(aten.select.int)
def _select(x: Tensor, dim: int, index: int) -> Any:
    if not isinstance(index, int) or index >= 0:
        return NotImplemented
    if isinstance(x.shape[dim], torch.SymInt):  # of a part of it PyTorch may know no length
        return aten.select.int(x, dim, x.shape[dim] + index)
    stop = index + 1 or torch.iinfo(torch.int64).max
    return aten.slice.Tensor(x, dim, index, stop).squeeze(dim)


@rule(aten.index.Tensor)
def _index(x: Tensor, indices: Sequence[Tensor | None]) -> Any:
    """Several index tensors, not all of the leading axes: bring the indexed axes to the front."""
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    if len(axes) < 2 or len(axes) == len(indices):
        return NotImplemented
    others = [axis for axis in range(x.dim()) if axis not in axes]
    found = aten.index.Tensor(x.permute(*axes, *others), [indices[axis] for axis in axes])
    if axes[-1] - axes[0] != len(axes) - 1:
        return found
    # Neighbouring indexed axes: their common result stands where they stood.
    rank = found.dim() - len(others)
    before = list(range(rank, rank + axes[0]))
    return found.permute(*before, *range(rank), *range(rank + axes[0], found.dim()))


@rule(aten.index_select.default)
def _index_select(x: Tensor, dim: int, index: Tensor) -> Any:
    if not x.dim():
        return x.clone()
    if index.dim():
        return NotImplemented
    return aten.index_select.default(x, dim, index.reshape(1))
