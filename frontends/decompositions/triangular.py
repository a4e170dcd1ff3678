"""Triangular systems and Cholesky factors, computed in float64."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tvm_sparse.frontends.decompositions.table import aten, rule


def wide(x: Tensor) -> Tensor:
    """Return ``x`` in the type that factors are computed in."""
    return x.to(torch.float64)


def fewest(a: Tensor) -> Any:
    """Return the smaller extent of matrices, which may be open."""
    return torch.sym_min(*a.shape[-2:])


def identity(x: Tensor, extent: int) -> Tensor:
    """Return the identity of ``extent`` rows, with the leading extents and the dtype of ``x``."""
    eye = torch.eye(extent, dtype=x.dtype)
    return eye.expand(*x.shape[:-2], extent, extent)


def triangular(a: Tensor, b: Tensor, *, upper: bool, unit: bool = False) -> Tensor:
    """Return the solution of ``a x = b``, all of one leading shape."""
    if 0 in b.shape:
        return torch.zeros_like(b)
    return aten.linalg_solve_triangular.default(a, b, upper=upper, unitriangular=unit)


def _solved(a: Tensor, b: Tensor, *, upper: bool, unit: bool = False) -> Tensor:
    """Return the solution of ``a x = b`` in the type of ``b``; leading extents broadcast."""
    lead = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    matrix, side = (wide(x.expand(*lead, *x.shape[-2:])) for x in (a, b))
    return triangular(matrix, side, upper=upper, unit=unit).to(b.dtype)


@rule(aten.linalg_solve_triangular.default)
def _solve_triangular(
    a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    lead = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    settled = left and a.dtype == torch.float64
    if settled and a.shape[:-2] == lead == b.shape[:-2] and 0 not in b.shape:
        return NotImplemented
    if left:
        return _solved(a, b, upper=upper, unit=unitriangular)
    return _solved(a.mT, b.mT, upper=not upper, unit=unitriangular).mT


@rule(aten.triangular_solve.default)
def _older_solve(
    b: Tensor, a: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Tensor, Tensor]:
    matrix = a.mT if transpose else a
    x = _solved(matrix, b, upper=upper != transpose, unit=unitriangular)
    return x, a.expand(*x.shape[:-2], *a.shape[-2:]).clone()


@rule(aten.linalg_cholesky_ex.default)
def _cholesky(a: Tensor, *, upper: bool = False, check_errors: bool = False) -> Any:
    if 0 in a.shape:
        return a.clone(), a.new_zeros(a.shape[:-2], dtype=torch.int32)
    if a.dtype == torch.float64 and not upper:
        return NotImplemented
    factor, info = aten.linalg_cholesky_ex.default(wide(a.mT if upper else a))
    return (factor.mT if upper else factor).to(a.dtype), info


if hasattr(aten, "cholesky"):  # before torch 2.15

    @rule(aten.cholesky.default)
    def _older_cholesky(a: Tensor, upper: bool = False) -> Tensor:
        return aten.linalg_cholesky_ex.default(a, upper=upper)[0]


@rule(aten.cholesky_solve.default)
def _cholesky_solve(b: Tensor, factor: Tensor, upper: bool = False) -> Tensor:
    lower = wide(factor.mT if upper else factor)
    x = _solved(lower, wide(b), upper=False)
    return _solved(lower.mT, x, upper=True).to(b.dtype)


@rule(aten.cholesky_inverse.default)
def _cholesky_inverse(factor: Tensor, upper: bool = False) -> Tensor:
    return _cholesky_solve(identity(factor, factor.shape[-1]), factor, upper)


@rule(aten.linalg_cholesky.default)
def _cholesky_unchecked(a: Tensor, *, upper: bool = False) -> Tensor:
    return aten.linalg_cholesky_ex.default(a, upper=upper)[0]
