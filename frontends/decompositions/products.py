"""Products of matrices and distances of vectors, by the products that stay whole."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tvm_sparse.frontends.decompositions.table import aten, rule
from tvm_sparse.frontends.program import open_indices
from tvm_sparse.machine.vector import LANES


def _sum(x: Tensor, product: Tensor, beta: Any, alpha: Any) -> Tensor:
    """Return ``beta * x + alpha * product``; whole numbers count the whole parts of factors."""
    if not product.is_floating_point() and not product.is_complex():
        beta, alpha = int(beta), int(alpha)
    scaled = product if alpha == 1 else product * alpha
    if beta == 0:  # NaN in x does not count
        return scaled
    return scaled + (x if beta == 1 else x * beta)


@rule(aten.addmm.default)
def _addmm(x: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return NotImplemented if x.is_floating_point() else _sum(x, a @ b, beta, alpha)


@rule(aten.addmv.default)
def _addmv(x: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    return _sum(x, (mat @ vec.unsqueeze(-1)).squeeze(-1), beta, alpha)


@rule(aten.addbmm.default)
def _addbmm(x: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    return _sum(x, torch.bmm(batch1, batch2).sum(0), beta, alpha)


_BILINEAR = [[1, 3], [0], [1, 2], [2, 3]]
"""The axes of ``y[n, o] = sum of x1[n, i] * w[o, i, j] * x2[n, j]``."""


def _bilinear(x1: Tensor, weight: Tensor, x2: Tensor) -> Tensor:
    """Return a linear layer on products of inputs, or, for few features, products of one's results.

    The latter has ``o * i`` features, and no lane of a vector is idle.
    """
    features, first, second = weight.shape
    if features < min(LANES, first):
        rows = weight.reshape(features * first, second)
        parts = aten.linear.default(x2, rows).unflatten(1, (features, first))
        return (parts * x1.unsqueeze(1)).sum(-1)
    pairs = (x1.unsqueeze(2) * x2.unsqueeze(1)).flatten(1)
    return aten.linear.default(pairs, weight.flatten(1))


@rule(aten._trilinear.default)
def _trilinear(  # noqa: PLR0917 (the operator's own signature)
    i1: Tensor,
    i2: Tensor,
    i3: Tensor,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> Tensor:
    axes_of_all = [list(axes) for axes in (expand1, expand2, expand3, sumdim)]
    if axes_of_all == _BILINEAR and i2.is_floating_point():
        return _bilinear(i1, i2, i3)
    operands = []
    for operand, axes in ((i1, expand1), (i2, expand2), (i3, expand3)):
        wide = operand
        for axis in sorted(axes):
            wide = wide.unsqueeze(axis)
        operands.append(wide)
    first, second, third = operands
    return (first * second * third).sum(tuple(sumdim))


@rule(aten._cdist_forward.default)
def _cdist(x1: Tensor, x2: Tensor, p: float, compute_mode: int | None) -> Tensor:
    apart = (x1.unsqueeze(-2) - x2.unsqueeze(-3)).abs()
    return _norm(apart, p)


@rule(aten._pdist_forward.default)
def _pdist(x: Tensor, p: float = 2) -> Tensor:
    rows = x.shape[0]
    places = open_indices.upper(rows, rows, 1)
    pairs = torch.triu_indices(rows, rows, 1) if places is NotImplemented else places
    first, second = pairs.unbind(0)
    return _norm((x[first] - x[second]).abs(), p)


def _norm(sizes: Tensor, p: float) -> Tensor:
    """Return the norm of the last axis of ``sizes``, which are not negative."""
    if sizes.shape[-1] == 0:
        return sizes.sum(-1)
    if p == 0:
        return (sizes != 0).to(sizes.dtype).sum(-1)
    if p == 1:
        return sizes.sum(-1)
    if p == math.inf:
        return sizes.amax(-1)
    if p == 2:
        return (sizes * sizes).sum(-1).sqrt()
    return sizes.pow(p).sum(-1).pow(1 / p)


@rule(aten.mm.default, aten.bmm.default, aten.matmul.default)
def _product(x: Tensor, other: Tensor) -> Any:
    """Return zeros, the sums of no terms, where the common extent is zero."""
    if x.shape[-1] != 0 or min(x.dim(), other.dim()) < 2:
        return NotImplemented
    lead = torch.broadcast_shapes(x.shape[:-2], other.shape[:-2])
    return x.new_zeros((*lead, x.shape[-2], other.shape[-1]))
