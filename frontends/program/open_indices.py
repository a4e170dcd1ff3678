"""Indices that follow from open extents: of triangles, of elements along an axis."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tvm_sparse.frontends.program.open_table import is_open, is_same, rewrites


@rewrites("take_along_dim")
def _take_along(x: Tensor, indices: Tensor, dim: int | None = None) -> Any:
    """Gather elements; all other axes of both are broadcast."""
    if not is_open(*x.shape, *indices.shape):
        return NotImplemented
    if dim is None:
        return x.reshape(-1).gather(0, indices.reshape(-1))
    if x.dim() != indices.dim() or not x.dim():
        return NotImplemented
    axis = dim % x.dim()
    taken, length = indices.shape[axis], x.shape[axis]
    ones = [e.narrow(axis, 0, 1) for e in (x, indices)]
    lead = list(torch.broadcast_shapes(*(e.shape for e in ones)))
    wide = [
        x.expand([*lead[:axis], n, *lead[axis + 1 :]]) for x, n in ((x, length), (indices, taken))
    ]
    return wide[0].gather(axis, wide[1])


@rewrites("tril_indices")
def _lower(row: Any, col: Any, offset: Any = 0, **options: Any) -> Any:
    return _triangle(row, col, -offset, lower=True, **options)


@rewrites("triu_indices")
def upper(row: Any, col: Any, offset: Any = 0, **options: Any) -> Any:
    """Return :func:`torch.triu_indices` of an open square, ``NotImplemented`` of others."""
    return _triangle(row, col, offset, lower=False, **options)


def _triangle(row: Any, col: Any, cut: Any, *, lower: bool, **options: Any) -> Any:
    """Return places of a triangle of a square, less ``cut`` rows or columns at its corner.

    Counted from its tip, place ``p`` of a triangle is in row ``(sqrt(8 p + 1) - 1) // 2``.
    """
    square = isinstance(cut, int) and cut >= 0 and is_same(row, col)
    if not is_open(row, col) or not square or set(options) - {"dtype", "device", "layout"}:
        return NotImplemented
    side, device = row - cut, options.get("device")
    count = side * (side + 1) // 2
    places = torch.arange(count, device=device)
    places = places if lower else count - 1 - places
    rows = ((8 * places.double() + 1).sqrt() - 1).mul(0.5).floor().long()
    columns = places - rows * (rows + 1) // 2
    if lower:
        rows = rows + cut
    else:
        rows, columns = side - 1 - rows, side - 1 - columns + cut
    return torch.stack([rows, columns]).to(options.get("dtype") or torch.int64)


@rewrites("Tensor.fill_diagonal_")
def _fill_diagonal(x: Tensor, fill_value: Any, wrap: bool = False) -> Any:
    if not is_open(*x.shape) or x.dim() != 2 or wrap:
        return NotImplemented
    x.diagonal().fill_(fill_value)
    return x


@rewrites("tensor_split")
def _tensor_split(x: Tensor, *given: Any, dim: int = 0, **named: Any) -> Any:
    """Cut so many parts, the first of which are longer by one."""
    parts = given[0] if given else named.get("indices_or_sections", named.get("sections"))
    axis = given[1] if len(given) > 1 else dim
    if not isinstance(parts, int) or not is_open(x.shape[axis]):
        return NotImplemented
    extent = x.shape[axis]
    sizes = [(extent + parts - 1 - part) // parts for part in range(parts)]
    return x.split(sizes, axis)


@rewrites("gradient")
def _gradient(x: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> Any:
    """Take differences of neighbours, at both ends one-sided ones, on even grids."""
    axes = range(x.dim()) if dim is None else [dim] if isinstance(dim, int) else dim
    even = isinstance(spacing, int | float) and edge_order == 1
    if not even or not is_open(*(x.shape[axis] for axis in axes)):
        return NotImplemented
    return [_slope(x, axis) / spacing for axis in axes]


def _slope(x: Tensor, axis: int) -> Tensor:
    extent = x.shape[axis]
    steps = x.narrow(axis, 1, extent - 1) - x.narrow(axis, 0, extent - 1)
    both = (x.narrow(axis, 2, extent - 2) - x.narrow(axis, 0, extent - 2)) / 2
    return torch.cat([steps.narrow(axis, 0, 1), both, steps.narrow(axis, extent - 2, 1)], axis)
