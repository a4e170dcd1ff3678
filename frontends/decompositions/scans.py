"""Scans: of single numbers, which have no axis, and of integers, which become wider."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tvm_sparse.frontends.decompositions.table import aten, rule


def _sum(operator: Any) -> None:
    """Enter the rule of a running sum or product: integers and booleans become int64 first."""

    @rule(operator)
    def scan(x: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Any:
        wanted = dtype or torch.promote_types(x.dtype, torch.int64)
        if not x.dim():
            return x.to(wanted, copy=True)
        return NotImplemented if x.dtype == wanted else operator(x.to(wanted), dim, dtype=wanted)


@rule(aten.cummax.default, aten.cummin.default)
def _extreme(x: Tensor, dim: int) -> Any:
    return NotImplemented if x.dim() else (x.clone(), torch.zeros_like(x, dtype=torch.int64))


@rule(aten.logcumsumexp.default)
def _log_sum(x: Tensor, dim: int) -> Any:
    return NotImplemented if x.dim() else x.clone()


_sum(aten.cumsum.default)
_sum(aten.cumprod.default)
