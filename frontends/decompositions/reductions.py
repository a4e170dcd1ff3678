"""Extrema and products along axes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tvm_sparse.frontends.decompositions.table import aten, rule


@rule(aten.amax.default)
def _largest(x: Tensor, dim: Sequence[int] = (), keepdim: bool = False) -> Tensor:
    if x.dim() == 0:
        return x.clone()
    dims = sorted(d % x.dim() for d in dim) if dim else list(range(x.dim()))
    for d in reversed(dims):
        x = torch.max(x, d, keepdim=keepdim).values
    return x


@rule(aten.amin.default)
def _smallest(x: Tensor, dim: Sequence[int] = (), keepdim: bool = False) -> Tensor:
    return -torch.amax(-x, tuple(dim), keepdim)


@rule(aten.min.dim)
def _smallest_along(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    values, indices = torch.max(-x, dim, keepdim)
    return -values, indices
