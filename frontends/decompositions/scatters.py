"""Elements written to places that are data, all by the scatters of our own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.frontends.decompositions.table import aten, rule

_OUTSIDE = -(2**62)
"""An index that no axis has, negative or not: what is written there is dropped."""


@rule(aten.scatter.src)
def _scatter(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Any:
    if x.dim() == 0:
        return src.reshape(()).clone() if index.numel() else x.clone()
    if index.numel() == 0:
        return x.clone()
    fitted = _fitted(x, index, src)
    return NotImplemented if fitted is None else aten.scatter.src(x, dim, *fitted)


def _fitted(x: Tensor, index: Tensor, src: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return indices and sources of one shape, or ``None`` where they have it already."""
    if index.dim() == x.dim() and src.shape == index.shape:
        return None
    index = index.reshape(1) if index.dim() == 0 else index
    src = src.reshape(1) if src.dim() == 0 else src
    for axis, extent in enumerate(index.shape):
        if src.shape[axis] != extent:
            src = src.narrow(axis, 0, extent)
    return index, src


@rule(aten.scatter.value)
def _scatter_value(x: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    return aten.scatter.src(x, dim, index, torch.full(index.shape, value, dtype=x.dtype))


@rule(aten.scatter.reduce, aten.scatter.value_reduce)
def _scatter_by_name(x: Tensor, dim: int, index: Tensor, src: Any, *, reduce: str) -> Tensor:
    if not isinstance(src, Tensor):
        src = torch.full(index.shape, src, dtype=x.dtype)
    wanted = {"add": "sum", "multiply": "prod"}[reduce]
    return aten.scatter_reduce.two(x, dim, index, src, wanted)


@rule(aten.scatter_add.default)
def _scatter_add(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    return aten.scatter_reduce.two(x, dim, index, src, "sum")


@rule(aten.scatter_reduce.two)
def _scatter_reduce(
    x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Any:
    if x.dim() == 0:
        index, src = index.reshape(-1), src.reshape(-1)
        wide = x.reshape(1)
        found = aten.scatter_reduce.two(wide, 0, index, src, reduce, include_self=include_self)
        return found.reshape(())
    if index.numel() == 0:
        return x.clone()
    fitted = _fitted(x, index, src)
    if fitted is not None:
        return aten.scatter_reduce.two(x, dim, *fitted, reduce, include_self=include_self)
    if reduce == "mean":
        return _scatter_mean(x, dim, index, src, include_self)
    if include_self:
        return NotImplemented
    neutral = {"sum": 0, "prod": 1, "amax": _lowest(x.dtype), "amin": _highest(x.dtype)}[reduce]
    cleared = aten.scatter.value(x, dim, index, neutral)
    return aten.scatter_reduce.two(cleared, dim, index, src, reduce)


def _scatter_mean(x: Tensor, dim: int, index: Tensor, src: Tensor, include_self: bool) -> Tensor:
    sums = aten.scatter_reduce.two(x, dim, index, src, "sum", include_self=include_self)
    ones = torch.ones_like(x)
    parts = torch.ones_like(src)
    counts = aten.scatter_reduce.two(ones, dim, index, parts, "sum", include_self=include_self)
    if x.dtype.is_floating_point:
        return sums / counts
    return torch.div(sums, counts, rounding_mode="floor")


def _lowest(dtype: torch.dtype) -> float:
    return float("-inf") if dtype.is_floating_point else torch.iinfo(dtype).min


def _highest(dtype: torch.dtype) -> float:
    return float("inf") if dtype.is_floating_point else torch.iinfo(dtype).max


def _along(index: Tensor, dim: int, shape: Sequence[int]) -> Tensor:
    """Return the one-dimensional ``index`` along ``dim`` of ``shape``, repeated over the rest."""
    view = [1] * len(shape)
    view[dim] = index.numel()
    extents = list(shape)
    extents[dim] = index.numel()
    return index.to(torch.int64).reshape(view).expand(extents)


def _flattened(x: Tensor) -> Tensor:
    return x.reshape(1) if x.dim() == 0 else x


@rule(aten.index_add.default)
def _index_add(x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    wide, source = _flattened(x), _flattened(source)
    dim %= wide.dim()
    source = source if alpha == 1 else source * alpha
    found = aten.scatter_add(wide, dim, _along(index, dim, source.shape), source.to(x.dtype))
    return found.reshape(x.shape)


@rule(aten.index_copy.default)
def _index_copy(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    wide, source = _flattened(x), _flattened(source)
    dim %= wide.dim()
    return aten.scatter.src(wide, dim, _along(index, dim, source.shape), source).reshape(x.shape)


@rule(aten.index_fill.int_Scalar, aten.index_fill.int_Tensor)
def _index_fill(x: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    wide = _flattened(x)
    dim %= wide.dim()
    places = _along(index, dim, wide.shape)
    if not isinstance(value, Tensor):
        return aten.scatter.value(wide, dim, places, value).reshape(x.shape)
    source = value.to(x.dtype).expand(places.shape)
    return aten.scatter.src(wide, dim, places, source).reshape(x.shape)


@rule(aten.index_reduce.default)
def _index_reduce(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    wide, source = _flattened(x), _flattened(source)
    dim %= wide.dim()
    places = _along(index, dim, source.shape)
    found = aten.scatter_reduce.two(wide, dim, places, source, reduce, include_self=include_self)
    return found.reshape(x.shape)


@rule(aten.index_put.default, aten._unsafe_index_put.default)
def _index_put(
    x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False
) -> Tensor:
    """Bring the indexed axes to the front and flatten them: one index for each row there."""
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    given = [index for index in indices if index is not None]
    if any(index.dtype in (torch.bool, torch.uint8) for index in given):
        return _masked_put(x, given, values, accumulate)
    others = [axis for axis in range(x.dim()) if axis not in axes]
    places = torch.broadcast_tensors(*(index.to(torch.int64) for index in given))
    rest = [x.shape[axis] for axis in others]
    values = _in_front(values.to(x.dtype), places[0].shape, axes, x, rest)
    extents = [x.shape[axis] for axis in axes]
    rows = _row(places, extents)
    moved = x.permute(*axes, *others)
    flat = moved.reshape(math.prod(extents), *rest)
    wide = _along(rows.reshape(-1), 0, (rows.numel(), *rest))
    operator = aten.scatter_add.default if accumulate else aten.scatter.src
    written = operator(flat, 0, wide, values.reshape(rows.numel(), *rest)).reshape(moved.shape)
    order = [*axes, *others]
    return written.permute(*(order.index(axis) for axis in range(x.dim())))


def _in_front(
    values: Tensor, places: Sequence[int], axes: list[int], x: Tensor, rest: list[int]
) -> Tensor:
    """Return ``values`` broadcast, the axes that the indices give first, then the others."""
    neighbours = axes == list(range(axes[0], axes[-1] + 1))
    first = axes[0] if neighbours else 0
    shape = [*rest[:first], *places, *rest[first:]]
    wide = values.expand(shape)
    moved = list(range(first, first + len(places)))
    return wide.permute(*moved, *(i for i in range(len(shape)) if i not in moved))


def _row(places: Sequence[Tensor], extents: list[int]) -> Tensor:
    """Return the row-major index of ``places``; one that is outside stays outside."""
    row = torch.zeros_like(places[0])
    inside = torch.ones_like(places[0], dtype=torch.bool)
    for index, extent in zip(places, extents, strict=True):
        front = torch.where(index < 0, index + extent, index)
        inside = inside & (front >= 0) & (front < extent)
        row = row * extent + front
    return torch.where(inside, row, _OUTSIDE)


def _masked_put(x: Tensor, masks: list[Tensor], values: Tensor, accumulate: bool) -> Tensor:
    if len(masks) > 1 or values.numel() != 1:
        raise UnsupportedError(
            "index_put", "a mask chooses places for several values", "one value", "use torch.where"
        )
    mask = masks[0].to(torch.bool)
    mask = mask.reshape(*mask.shape, *[1] * (x.dim() - mask.dim()))
    value = values.reshape(()).to(x.dtype)
    return torch.where(mask, x + value if accumulate else value, x)


@rule(aten.put.default)
def _put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    operator = aten.scatter_add.default if accumulate else aten.scatter.src
    return operator(x.reshape(-1), 0, index.reshape(-1), source.reshape(-1)).reshape(x.shape)


@rule(aten.masked_scatter.default)
def _masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    x, mask = torch.broadcast_tensors(x, mask)
    number = torch.cumsum(mask.reshape(-1).to(torch.int64), 0) - 1
    last = max(0, source.numel() - 1)
    found = source.reshape(-1)[number.clamp(0, last)]
    return torch.where(mask, found.reshape(x.shape), x)
