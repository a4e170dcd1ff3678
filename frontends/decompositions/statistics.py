"""Statistics along axes, and reductions of single numbers, which have no axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tvm_sparse.frontends.decompositions.table import aten, rule


@rule(aten.var_mean.correction)
def _variance_and_mean(
    x: Tensor,
    dim: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> tuple[Tensor, Tensor]:
    dims = tuple(dim) if dim else tuple(range(x.dim()))
    mean = x.mean(dims, keepdim=keepdim)
    return torch.var(x, dims, correction=correction, keepdim=keepdim), mean


@rule(aten.var.correction)
def _variance(
    x: Tensor,
    dim: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> Any:
    """Return NaN or infinity, the sum over zero, where there are too few elements."""
    dims = tuple(dim) if dim else tuple(range(x.dim()))
    count = math.prod(x.shape[d] for d in dims)
    fewer = 1 if correction is None else correction
    if not isinstance(count, int):
        return NotImplemented if fewer == 0 else _open_variance(x, dims, count, fewer, keepdim)
    if count > fewer:
        return NotImplemented
    if count == 0:
        return x.sum(dims, keepdim) * math.nan
    away = x - x.mean(dims, keepdim=True)
    return (away * away).sum(dims, keepdim) * math.inf


def _open_variance(
    x: Tensor, dims: tuple[int, ...], count: Any, correction: float, keepdim: bool
) -> Tensor:
    """Return a variance whose number of elements is open: of one element, say, it is NaN."""
    wide = x.float() if x.dtype in {torch.float16, torch.bfloat16} else x
    away = wide - wide.mean(dims, keepdim=True)
    whole = int(correction) if correction == int(correction) else correction
    divisor = torch.sym_max(count - whole, 0)
    return ((away * away).sum(dims, keepdim) / divisor).to(x.dtype)


@rule(aten.argmax.default, aten.argmin.default)
def _place(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    return NotImplemented if x.dim() else torch.zeros_like(x, dtype=torch.int64)


@rule(aten.any.default)
def _any(x: Tensor) -> Tensor:
    return aten.any.dim(x.reshape(-1), 0)


@rule(aten.all.default)
def _all(x: Tensor) -> Tensor:
    return ~aten.any.dim(x.reshape(-1) == 0, 0)


@rule(aten.all.dim)
def _all_along(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    return ~aten.any.dim(x == 0, dim, keepdim)


@rule(aten.any.dim)
def _any_along(x: Tensor, dim: int, keepdim: bool = False) -> Any:
    """TVM takes the largest of bytes, which is -128 where there is none: true."""
    if x.dim() == 0:
        return x != 0
    if not isinstance(x.shape[dim], int):
        return (x != 0).sum(dim, keepdim, dtype=torch.int32) > 0
    return NotImplemented if x.dtype == torch.bool else aten.any.dim(x != 0, dim, keepdim)


@rule(aten.histc.default)
def _histogram(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    x = x.reshape(-1)
    if min == max and x.numel() == 0:
        return torch.zeros(bins, dtype=x.dtype)
    low, high = (x.amin(), x.amax()) if min == max else (x.new_full((), min), x.new_full((), max))
    single = low == high
    low, high = torch.where(single, low - 1, low), torch.where(single, high + 1, high)
    inside = (x >= low) & (x <= high)
    place = ((x - low) / (high - low) * bins).to(torch.int64).clamp(0, bins - 1)
    places = torch.where(inside, place, bins)
    return aten.scatter_add(x.new_zeros(bins + 1), 0, places, torch.ones_like(x))[:bins]


@rule(aten.sum.dim_IntList)
def _sum(
    x: Tensor,
    dim: Sequence[int] | None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Any:
    if x.dim():
        return NotImplemented
    return x.to(dtype or (x.dtype if x.is_floating_point() else torch.int64), copy=True)


@rule(aten.mean.dim)
def _mean(
    x: Tensor,
    dim: Sequence[int] | None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Any:
    if 0 in x.shape:
        # The mean of nothing is NaN.
        return x.to(dtype or x.dtype).sum(tuple(dim or range(x.dim())), keepdim) * math.nan
    return NotImplemented if x.dim() else x.to(dtype or x.dtype, copy=True)
