"""Norms of matrices with open extents, of which PyTorch asks whether they are empty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tvm_sparse.frontends.program.open_table import is_open, rewrites


@rewrites("linalg.matrix_norm")
def _matrix_norm(
    x: Tensor,
    ord: Any = "fro",
    dim: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
    **others: Any,
) -> Any:
    """Take the largest or the least of the singular values."""
    if ord not in {2, -2} or others or not is_open(*x.shape):
        return NotImplemented
    matrices = (x if dtype is None else x.to(dtype)).movedim(tuple(dim), (-2, -1))
    values = torch.linalg.svdvals(matrices)
    found = values.amax(-1) if ord > 0 else values.amin(-1)
    for axis in sorted(axis % x.dim() for axis in dim) if keepdim else ():
        found = found.unsqueeze(axis)
    return found


@rewrites("linalg.norm")
def _norm(x: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, **others: Any) -> Any:
    """Take a norm of matrices, where it is one."""
    axes = (-2, -1) if dim is None else dim
    if (dim is None and x.dim() != 2) or isinstance(axes, int) or len(axes) != 2:
        return NotImplemented
    return _matrix_norm(x, ord, axes, keepdim, **others)
