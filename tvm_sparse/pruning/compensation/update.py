"""The arithmetic of one layer: which weights go, and what the others become.

A layer computes ``X W^T``. With ``H = X^T X``, replacing ``W`` by ``V`` changes its outputs by
``||X (W - V)^T||^2 = tr((W - V) H (W - V)^T)``.

All weights here are ``(parts, rows, columns)`` and all matrices ``H`` ``(parts, columns,
columns)``: the rows of a part share their inputs.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Scores = Callable[[int, int], Tensor]
"""``scores(start, stop)`` returns those of the columns from ``start`` to ``stop``."""

Decide = Callable[[Scores, int, int], Tensor]
"""``decide(scores, start, stop)`` returns the mask (bool) of the columns from ``start`` to
``stop``, given the scores of any columns."""

FIRST = 1e30
"""Score of a weight that is kept already: above any other, and sums of its root stay finite."""


def damped(gram: Tensor, extra: Tensor) -> Tensor:
    """Return ``gram`` with ``extra`` (parts) added to its diagonals, which makes it definite."""
    found = gram.clone()
    found.diagonal(dim1=-2, dim2=-1).add_(extra[:, None])
    return found


def damping_of(gram: Tensor, fraction: float) -> Tensor:
    """Return ``fraction`` of each part's mean diagonal, 1 for a part that only ever read zeros."""
    mean = gram.diagonal(dim1=-2, dim2=-1).mean(-1)
    return torch.where(mean > 0, fraction * mean, 1.0)


def sweep(weight: Tensor, factor: Tensor, width: int, decide: Decide) -> tuple[Tensor, Tensor]:
    """Prune ``weight`` from the left to the right, each error spread over what is to the right.

    Frantar and Alistarh, "SparseGPT", 2023, algorithm 1: column by column in blocks of ``width``.
    A weight ``w`` in column ``c`` costs ``w^2 / U[c, c]^2``: its loss if the columns before ``c``
    are settled.

    Parameters
    ----------
    weight
        ``(parts, rows, columns)``; not changed.
    factor
        ``U`` of :func:`inverse_factor`, ``(parts, columns, columns)``.
    width
        Columns that are decided together.
    decide
        Chooses the mask of a block. Settled weights score :data:`FIRST` or 0.

    Returns
    -------
    The updated weight, and its mask (bool, True = kept).
    """
    weight, columns = weight.clone(), weight.shape[-1]
    scale = factor.diagonal(dim1=-2, dim2=-1)[:, None]
    mask, settled = torch.zeros_like(weight, dtype=torch.bool), 0

    def scores(first: int, last: int) -> Tensor:
        here, count = slice(first, last), max(settled - first, 0)
        found = (weight[..., here] / scale[..., here]).square()
        found[..., :count] = mask[..., here][..., :count].to(found) * FIRST
        return found

    for start in range(0, columns, width):
        settled, stop = start, min(start + width, columns)
        mask[..., start:stop] = decide(scores, start, stop)
        errors = torch.zeros_like(weight[..., start:stop])
        for column in range(start, stop):
            lost = torch.where(mask[..., column], 0, weight[..., column]) / scale[..., column]
            errors[..., column - start] = lost
            here = slice(column, stop)
            weight[..., here] -= lost[..., None] * factor[:, None, column, here]
        weight[..., stop:] -= errors @ factor[:, start:stop, stop:]
    return weight * mask, mask


def inverse_factor(hessian: Tensor) -> Tensor:
    """Return the upper triangular ``U`` with ``U^T U`` the inverse of ``hessian``.

    With rows and columns in reverse order, Cholesky's factor gives ``H = R R^T`` with an upper
    triangular ``R``, and ``U`` is the inverse of ``R``: one factorisation, no inverse of ``H``.
    """
    upper = torch.linalg.cholesky(hessian.flip(-2, -1)).flip(-2, -1)
    unit = torch.eye(hessian.shape[-1], dtype=hessian.dtype, device=hessian.device)
    unit = unit.expand_as(upper).contiguous()  # of a wide layer it takes hundreds of megabytes
    return torch.linalg.solve_triangular(upper, unit, upper=True, out=unit)


def solution(wanted: Tensor, factor: Tensor) -> Tensor:
    """Return the weights without a mask: ``wanted H^-1``, with ``factor`` of ``H``."""
    return wanted @ factor.mT @ factor


def saliency(weight: Tensor, factor: Tensor) -> Tensor:
    """Return what each weight costs alone if all others adapt: ``w^2 / diag(H^-1)``.

    Hassibi and Stork, "Second order derivatives for network pruning", 1992, equation 5. ``factor``
    is that of :func:`inverse_factor`.
    """
    return weight.square() / factor.square().sum(-2, keepdim=True)


def refit(weight: Tensor, mask: Tensor, hessian: Tensor, wanted: Tensor, steps: int) -> Tensor:
    """Return the best weights on ``mask``: those that minimise ``tr(V H V^T) - 2 tr(V wanted^T)``.

    Conjugate gradients, preconditioned by the diagonal, all rows at once, from ``weight`` on. As
    many steps as a row has weights give the least-squares solution; a few tens give most of it.

    Parameters
    ----------
    weight, mask, wanted
        ``(parts, rows, columns)``. ``wanted`` is ``Y^T X`` for the outputs ``Y`` that are wanted.
    hessian
        ``(parts, columns, columns)``, positive definite.
    steps
        Iterations; 0 returns ``weight``.
    """
    found, diagonal = weight * mask, hessian.diagonal(dim1=-2, dim2=-1)[:, None]
    residual = (wanted - found @ hessian) * mask
    direction = residual / diagonal
    product = (residual * direction).sum(-1, keepdim=True)
    for _ in range(steps):
        image = (direction @ hessian) * mask
        step = _quotient(product, (direction * image).sum(-1, keepdim=True))
        found = found + step * direction
        residual = residual - step * image
        scaled = residual / diagonal
        before, product = product, (residual * scaled).sum(-1, keepdim=True)
        direction = scaled + _quotient(product, before) * direction
    return found


def _quotient(a: Tensor, b: Tensor) -> Tensor:
    """Return ``a / b``, and 0 where a row has nothing left to improve."""
    return torch.where(b > 0, a / torch.where(b > 0, b, 1), 0)
