"""Extrema and norms along axes, and whether all or any elements are true."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tvm_sparse.frontends.decompositions.table import aten, rule


@rule(aten.amax.default, aten.amin.default)
def _extreme(x: Tensor, dim: Sequence[int] = (), keepdim: bool = False) -> Any:
    return NotImplemented if x.dim() else x.clone()


@rule(aten._is_all_true.default)
def _all_true(x: Tensor) -> Tensor:
    return aten.all.default(x)


@rule(aten._is_any_true.default)
def _any_true(x: Tensor) -> Tensor:
    return aten.any.default(x)


@rule(aten.max.dim)
def _largest_along(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return torch.amax(x, dim, keepdim), torch.argmax(x, dim, keepdim)


@rule(aten.min.dim)
def _smallest_along(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return torch.amin(x, dim, keepdim), torch.argmin(x, dim, keepdim)


@rule(aten.linalg_vector_norm.default)
def _norm(
    x: Tensor,
    order: float = 2,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Any:
    """Return a length as the root of a sum of squares: PyTorch's form computes powers there."""
    axes = tuple(range(x.dim())) if dim is None else tuple(dim)
    if order == 0:
        return (x != 0).to(dtype or x.dtype).sum(axes, keepdim)
    if x.is_complex() or (dtype or x.dtype).is_complex:
        return NotImplemented
    if dtype not in (None, x.dtype):
        return aten.linalg_vector_norm.default(x.to(dtype), order, dim, keepdim)
    if order not in (1, 2):
        return NotImplemented
    halves = x.dtype in (torch.float16, torch.bfloat16)
    wide = x.float() if halves else x
    if order == 1:
        return wide.abs().sum(axes, keepdim).to(x.dtype)
    return (wide * wide).sum(axes, keepdim).sqrt().to(x.dtype)
