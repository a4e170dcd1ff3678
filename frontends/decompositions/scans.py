"""Scans of single numbers, which have no axis."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tvm_sparse.frontends.decompositions.table import aten, rule


@rule(aten.cumsum.default, aten.cumprod.default)
def _sum(x: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Any:
    if x.dim():
        return NotImplemented
    return x.to(dtype or (x.dtype if x.is_floating_point() else torch.int64), copy=True)


@rule(aten.cummax.default, aten.cummin.default)
def _extreme(x: Tensor, dim: int) -> Any:
    return NotImplemented if x.dim() else (x.clone(), torch.zeros_like(x, dtype=torch.int64))


@rule(aten.logcumsumexp.default)
def _log_sum(x: Tensor, dim: int) -> Any:
    return NotImplemented if x.dim() else x.clone()
