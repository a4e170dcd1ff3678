"""Products, powers and distances of tensors with open extents."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from tvm_sparse.frontends.program.open_table import is_open, rewrites

_FEW = 25
"""Up to so many rows of both, PyTorch takes distances of differences, not of products."""


@rewrites("kron")
def _kron(x: Tensor, other: Tensor) -> Any:
    """Multiply axes in pairs: ``y[i * n + k] = x[i] * other[k]``."""
    if not is_open(*x.shape, *other.shape):
        return NotImplemented
    axes = max(x.dim(), other.dim())
    first = [1] * (axes - x.dim()) + list(x.shape)
    second = [1] * (axes - other.dim()) + list(other.shape)
    apart = x.reshape([e for extent in first for e in (extent, 1)])
    between = other.reshape([e for extent in second for e in (1, extent)])
    return (apart * between).reshape([a * b for a, b in zip(first, second, strict=True)])


@rewrites("vander")
def _vander(x: Tensor, N: Any = None, increasing: bool = False) -> Any:
    """Multiply ``x`` up along a row that begins with one."""
    columns = x.shape[0] if N is None else N
    if not is_open(*x.shape, columns):
        return NotImplemented
    first = torch.arange(columns, device=x.device) == 0
    powers = torch.where(first, torch.ones_like(x[:, None]), x[:, None]).cumprod(1)
    return powers if increasing else powers.flip(1)


@rewrites("linalg.multi_dot", "chain_matmul")
def _multi_dot(*given: Any) -> Any:
    """Multiply from the left: which order takes least depends on extents."""
    matrices = given[0] if len(given) == 1 and not isinstance(given[0], Tensor) else given
    if not is_open(*(extent for matrix in matrices for extent in matrix.shape)):
        return NotImplemented
    return functools.reduce(torch.matmul, matrices)


@rewrites("cdist")
def _cdist(
    x1: Tensor,
    x2: Tensor,
    p: float = 2.0,
    compute_mode: str = "use_mm_for_euclid_dist_if_necessary",
) -> Any:
    """Decide between differences and products where numbers of rows do not."""
    rows = x1.shape[-2], x2.shape[-2]
    if p != 2 or not is_open(*rows) or not compute_mode.endswith("if_necessary"):
        return NotImplemented
    many = any(isinstance(count, int) and count > _FEW for count in rows)
    mode = "use_mm_for_euclid_dist" if many else "donot_use_mm_for_euclid_dist"
    return torch.cdist(x1, x2, p, mode)
