"""Factors of matrices, and what follows from them; all computed in float64.

A matrix that has no inverse or no Cholesky factor gives infinities or NaN: a compiled library does
not raise, as PyTorch does.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.frontends.decompositions.table import aten, rule
from tvm_sparse.frontends.decompositions.triangular import fewest, identity, triangular, wide

own = torch.ops.tvm_sparse


def _factors(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    if 0 in a.shape:
        steps = fewest(a)
        pivots = a.new_zeros((*a.shape[:-2], steps), dtype=torch.int32)
        return a.clone(), pivots, a.new_zeros(a.shape[:-2], dtype=torch.int32)
    return aten.linalg_lu_factor_ex.default(wide(a))


def _substituted(lu: Tensor, pivots: Tensor, b: Tensor, *, adjoint: bool = False) -> Tensor:
    """Return the solution of ``a x = b``, or of ``a^T x = b``, from the factors of ``a``."""
    lead = torch.broadcast_shapes(lu.shape[:-2], b.shape[:-2])
    lu, b = (x.expand(*lead, *x.shape[-2:]) for x in (lu, b))
    if 0 in b.shape:
        return torch.zeros_like(b)
    pivots = pivots.expand(*lead, pivots.shape[-1])
    order = own.permutation(pivots, b.shape[-2])
    if adjoint:
        x = triangular(lu.mT, b, upper=False)
        x = triangular(lu.mT, x, upper=True, unit=True)
        return x.gather(-2, order.argsort(-1).unsqueeze(-1).expand_as(x))
    x = b.gather(-2, order.unsqueeze(-1).expand_as(b))
    x = triangular(lu, x, upper=False, unit=True)
    return triangular(lu, x, upper=True)


@rule(aten.linalg_lu_factor_ex.default)
def _lu_factor(a: Tensor, *, pivot: bool = True, check_errors: bool = False) -> Any:
    if not pivot:
        raise UnsupportedError("linalg_lu_factor", "pivot=False", "pivot=True")
    if a.dtype == torch.float64 and 0 not in a.shape:
        return NotImplemented
    lu, pivots, info = _factors(a)
    return lu.to(a.dtype), pivots, info


@rule(aten.lu_unpack.default)
def _unpacked(
    lu: Tensor, pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    rows, columns = lu.shape[-2:]
    steps = torch.sym_min(rows, columns)
    p, lower, upper = (lu.new_zeros(0) for _ in range(3))
    if unpack_data:
        ones = torch.eye(rows, steps, dtype=lu.dtype)
        lower, upper = lu[..., :steps].tril(-1) + ones, lu[..., :steps, :].triu()
    if unpack_pivots:
        used = pivots[..., :steps]  # of a longer one, PyTorch reads no more
        order = own.permutation(used, rows) if rows else used.to(torch.int64)
        p = (order.unsqueeze(-2) == torch.arange(rows).unsqueeze(-1)).to(lu.dtype)
    return p, lower, upper


@rule(aten.linalg_lu.default)
def _lu(a: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    if not pivot:
        raise UnsupportedError("linalg_lu", "pivot=False", "pivot=True")
    lu, pivots, _ = _factors(a)
    p, lower, upper = (part.to(a.dtype) for part in _unpacked(lu, pivots))
    return p, lower, upper


@rule(aten.linalg_lu_solve.default)
def _lu_solve(
    lu: Tensor, pivots: Tensor, b: Tensor, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    if left:
        return _substituted(wide(lu), pivots, wide(b), adjoint=adjoint).to(b.dtype)
    x = _substituted(wide(lu), pivots, wide(b).mT, adjoint=not adjoint)
    return x.mT.to(b.dtype)


@rule(aten._linalg_solve_ex.default)
def _solve(a: Tensor, b: Tensor, *, left: bool = True, check_errors: bool = False) -> Any:
    lu, pivots, info = _factors(a)
    vector = b.dim() == 1 or b.shape == a.shape[:-1]
    side = wide(b.unsqueeze(-1) if vector else b)
    if left or vector:
        x = _substituted(lu, pivots, side)
    else:
        x = _substituted(lu, pivots, side.mT, adjoint=True).mT
    x = x.squeeze(-1) if vector else x
    return x.to(b.dtype), lu.to(a.dtype), pivots, info


@rule(aten.linalg_inv_ex.default)
def _inverse(a: Tensor, *, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    lu, pivots, info = _factors(a)
    return _substituted(lu, pivots, identity(lu, a.shape[-1])).to(a.dtype), info


def _swaps_are_odd(pivots: Tensor) -> Tensor:
    own_rows = torch.arange(1, pivots.shape[-1] + 1, dtype=pivots.dtype)
    return (pivots != own_rows).sum(-1) % 2 == 1


@rule(aten._linalg_det.default)
def _determinant(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    lu, pivots, _ = _factors(a)
    product = lu.diagonal(0, -2, -1).prod(-1)
    return (
        torch.where(_swaps_are_odd(pivots), -product, product).to(a.dtype),
        lu.to(a.dtype),
        pivots,
    )


@rule(aten._linalg_slogdet.default)
def _log_determinant(a: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    lu, pivots, _ = _factors(a)
    diagonal = lu.diagonal(0, -2, -1)
    sign = diagonal.sign().prod(-1)
    sign = torch.where(_swaps_are_odd(pivots), -sign, sign)
    return sign.to(a.dtype), diagonal.abs().log().sum(-1).to(a.dtype), lu.to(a.dtype), pivots


@rule(aten.linalg_inv.default, aten.inverse.default)
def _inverse_unchecked(a: Tensor) -> Tensor:
    return aten.linalg_inv_ex.default(a)[0]


@rule(aten.linalg_solve.default)
def _solve_unchecked(a: Tensor, b: Tensor, *, left: bool = True) -> Tensor:
    return aten._linalg_solve_ex.default(a, b, left=left)[0]


@rule(aten.linalg_lu_factor.default)
def _lu_factor_unchecked(a: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor]:
    return aten.linalg_lu_factor_ex.default(a, pivot=pivot)[:2]


@rule(aten.linalg_tensorinv.default)
def _tensor_inverse(a: Tensor, ind: int = 2) -> Tensor:
    rows, columns = a.shape[:ind], a.shape[ind:]
    square = a.reshape(math.prod(rows), math.prod(columns))
    return _inverse_unchecked(square).reshape(*columns, *rows)
