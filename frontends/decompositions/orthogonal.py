"""Orthogonal factors of matrices: QR, eigenvalues, singular values; all computed in float64.

The sign of a singular vector or eigenvector is any, so it may be another than PyTorch's.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.nn.functional import pad

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.frontends.decompositions.table import aten, rule
from tvm_sparse.frontends.decompositions.triangular import fewest
from tvm_sparse.frontends.program.open_table import is_open

own = torch.ops.tvm_sparse


def _reflections(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return what ``geqrf`` does, whose extents PyTorch cannot leave open."""
    operator = own.reflections if is_open(*a.shape) else aten.geqrf
    return operator.default(a.to(torch.float64))


def _basis(factors: Tensor, scales: Tensor, columns: int) -> Tensor:
    """Return the first ``columns`` columns of the product of the reflections in ``factors``."""
    wide = pad(factors, (0, columns - factors.shape[-1]))
    return aten.linalg_householder_product.default(wide, scales)


@rule(aten.geqrf.default)
def _geqrf(a: Tensor) -> Any:
    if a.dtype == torch.float64 and not is_open(*a.shape) and 0 not in a.shape:
        return NotImplemented
    if 0 in a.shape:
        return a.clone(), a.new_zeros((*a.shape[:-2], fewest(a)))
    factors, scales = _reflections(a)
    return factors.to(a.dtype), scales.to(a.dtype)


@rule(aten.linalg_householder_product.default)
def _householder_product(a: Tensor, scales: Tensor) -> Any:
    if a.dtype == torch.float64 and 0 not in scales.shape:
        return NotImplemented
    rows, columns = a.shape[-2:]
    if 0 in scales.shape:
        eye = torch.eye(rows, columns, dtype=a.dtype)
        return eye.expand(*a.shape).clone()
    product = aten.linalg_householder_product.default
    return product(a.to(torch.float64), scales.to(torch.float64)).to(a.dtype)


@rule(aten.ormqr.default)
def _ormqr(
    a: Tensor, scales: Tensor, other: Tensor, left: bool = True, transpose: bool = False
) -> Tensor:
    rows = a.shape[-2]
    if 0 in a.shape or 0 in scales.shape:
        return other.clone()
    q = _basis(a.to(torch.float64), scales.to(torch.float64), rows)
    q = q.mT if transpose else q
    wide = other.to(torch.float64)
    return (q @ wide if left else wide @ q).to(other.dtype)


@rule(aten.linalg_qr.default)
def _qr(a: Tensor, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    rows, columns = a.shape[-2:]
    steps = fewest(a)
    wanted = rows if mode == "complete" else steps
    if 0 in a.shape:
        eye = torch.eye(rows, 0 if mode == "r" else wanted, dtype=a.dtype)
        return eye.expand(*a.shape[:-2], *eye.shape).clone(), a.new_zeros(
            (*a.shape[:-2], wanted, columns)
        )
    factors, scales = _reflections(a)
    r = factors[..., :wanted, :].triu().to(a.dtype)
    if mode == "r":
        return a.new_zeros(0), r
    return _basis(factors[..., :steps], scales, wanted).to(a.dtype), r


def _sorted(turned: tuple[Tensor, Tensor], *, descending: bool) -> tuple[Tensor, ...]:
    """Return lengths of columns, in their order, the columns and the rotations."""
    columns, rotations = turned
    lengths, order = (columns * columns).sum(-2).sqrt().sort(-1, descending)
    order = order.unsqueeze(-2)
    return lengths, *(x.gather(-1, order.expand_as(x)) for x in (columns, rotations))


def _is_wide(a: Tensor) -> bool:
    """Whether matrices have more columns than rows, at every size that an extent may have."""
    rows, columns = a.shape[-2:]
    if statically_known_true(rows >= columns):
        return False
    if statically_known_true(rows <= columns):
        return True
    raise UnsupportedError(
        "operator 'torch.linalg.svd'",
        "takes matrices that have more rows than columns at one size of an open extent, and fewer"
        " at another",
        "matrices that are square, or of which one side is never the shorter one",
        "give the open extent a range on one side of the other: torch.export.Dim('n', min=8)",
    )


@rule(aten._linalg_svd.default)
def _svd(
    a: Tensor, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    steps = fewest(a)
    if 0 in a.shape:
        u, vh = (
            torch.eye(n, n if full_matrices else steps, dtype=a.dtype).expand(*a.shape[:-2], -1, -1)
            for n in a.shape[-2:]
        )
        return u.clone(), a.new_zeros((*a.shape[:-2], steps)), vh.mT.clone()
    if _is_wide(a):
        v, s, uh = _svd(a.mT, full_matrices, compute_uv)
        return (uh.mT, s, v.mT) if compute_uv else (v, s, uh)
    lengths, columns, v = _sorted(own.orthogonal_columns(a.to(torch.float64)), descending=True)
    if not compute_uv:
        return a.new_zeros(0), lengths.to(a.dtype), a.new_zeros(0)
    # A column may be zero, and a full basis has more: reflections make it whole.
    factors, scales = _reflections(columns)
    u = _basis(factors, scales, a.shape[-2] if full_matrices else a.shape[-1])
    signs = torch.where(factors.diagonal(0, -2, -1) < 0, -1.0, 1.0).to(torch.float64)
    signs = pad(signs, (0, u.shape[-1] - signs.shape[-1]), value=1.0)
    return (u * signs.unsqueeze(-2)).to(a.dtype), lengths.to(a.dtype), v.mT.to(a.dtype)


@rule(aten._linalg_eigh.default)
def _eigh(a: Tensor, UPLO: str = "L", compute_v: bool = True) -> tuple[Tensor, Tensor]:
    if 0 in a.shape:
        return a.new_zeros(a.shape[:-1]), a.clone()
    wide = a.to(torch.float64)
    wide = wide.tril() + wide.tril(-1).mT if UPLO.upper() == "L" else wide.triu() + wide.triu(1).mT
    # With the identity times a bound added, eigenvalues are singular values, in their order.
    bound = wide.abs().sum(-1).amax(-1)[..., None, None]
    shifted = wide + bound * torch.eye(a.shape[-1], dtype=torch.float64)
    lengths, _, v = _sorted(own.orthogonal_columns(shifted), descending=False)
    values = lengths - bound.squeeze(-1)
    return values.to(a.dtype), v.to(a.dtype) if compute_v else a.new_zeros(0)


@rule(aten.linalg_pinv.atol_rtol_tensor)
def _pseudo_inverse(
    a: Tensor, *, atol: Tensor | None = None, rtol: Tensor | None = None, hermitian: bool = False
) -> Tensor:
    """Return the inverse on the singular vectors whose values are not small."""
    if 0 in a.shape:
        return a.mT.clone()
    if hermitian:
        values, u = _eigh(a.to(torch.float64))
        s, vh = values.abs(), (u * values.sign().unsqueeze(-2)).mT
    else:
        u, s, vh = _svd(a.to(torch.float64))
    largest = s.amax(-1, keepdim=True)
    usual = torch.full((), torch.sym_max(*a.shape[-2:]) * torch.finfo(a.dtype).eps, dtype=s.dtype)
    if rtol is not None:
        relative = rtol.to(s.dtype).unsqueeze(-1)
    else:
        relative = usual if atol is None else torch.where(atol > 0, 0.0, usual).unsqueeze(-1)
    least = relative * largest
    if atol is not None:
        least = torch.maximum(least, atol.to(s.dtype).unsqueeze(-1))
    inverse = torch.where(s > least, 1 / s, 0.0)
    return (vh.mT @ (inverse.unsqueeze(-1) * u.mT)).to(a.dtype)
