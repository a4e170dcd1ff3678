"""Elements picked by indices; negative ones count from the end."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from tvm_sparse.frontends.onnx.node import Node
from tvm_sparse.frontends.onnx.registry import converter

FAR = 1 << 29
"""What exporters write for the end of an axis is farther away than this, open extents are not."""


def wrapped(indices: Tensor, extent: int) -> Tensor:
    """Return ``indices`` of 64 bits, negative ones counted from the end of ``extent``."""
    indices = indices.to(torch.int64)
    length = extent if isinstance(extent, int) else torch.scalar_tensor(extent, dtype=torch.int64)
    return torch.where(indices < 0, indices + length, indices)


def _bounded(indices: Tensor, extent: int) -> Tensor:
    """Return :func:`wrapped` indices, wild ones moved to the nearest element."""
    return wrapped(indices, extent).clamp(0, extent - 1)


@converter("Gather")
def gather(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """Return the elements of ``x`` along ``axis`` that ``indices``, of any shape, name."""
    axis %= x.dim()
    found = x.index_select(axis, wrapped(indices, x.shape[axis]).reshape(-1))
    return found.reshape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


@converter("GatherElements")
def _gather_elements(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    return torch.gather(x, axis, _bounded(indices, x.shape[axis]))


@converter("GatherND")
def _gather_nd(x: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    """Each row of ``indices`` names an element of the leading axes: one number, row-major."""
    depth = indices.shape[-1]
    batch, lead = x.shape[:batch_dims], x.shape[batch_dims : batch_dims + depth]
    rest = x.shape[batch_dims + depth :]
    places = _row_major(indices, lead)
    for i, extent in enumerate(batch):
        rows = torch.arange(extent).reshape([-1 if k == i else 1 for k in range(places.dim())])
        stride = int(np.prod([*batch[i + 1 :], *lead]))
        places = places + rows * stride
    found = x.reshape(-1, *rest).index_select(0, places.reshape(-1))
    return found.reshape(*places.shape, *rest)


def _row_major(indices: Tensor, extents: tuple[int, ...]) -> Tensor:
    """Return the place in a row of elements for each row of ``indices``."""
    place = torch.zeros(indices.shape[:-1], dtype=torch.int64)
    for k, extent in enumerate(extents):
        place = place * extent + _bounded(indices[..., k], extent)
    return place


_REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@converter("ScatterElements", "Scatter")
def _scatter_elements(
    x: Tensor,
    indices: Tensor,
    updates: Tensor,
    *,
    axis: int = 0,
    reduction: str = "none",
    node: Node,
) -> Tensor:
    return _scattered(x, axis, _bounded(indices, x.shape[axis]), updates, reduction, node)


def _scattered(  # noqa: PLR0917 (as many as the operator has)
    x: Tensor, axis: int, places: Tensor, updates: Tensor, reduction: str, node: Node
) -> Tensor:
    if reduction == "none":
        return torch.scatter(x, axis, places, updates)
    if reduction not in _REDUCTIONS:
        raise node.unsound(f"reduction '{reduction}'", ", ".join(_REDUCTIONS))
    return torch.scatter_reduce(x, axis, places, updates, _REDUCTIONS[reduction])


@converter("ScatterND")
def _scatter_nd(
    x: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none", node: Node
) -> Tensor:
    depth = indices.shape[-1]
    places = _row_major(indices, x.shape[:depth]).reshape(-1)
    rows = updates.reshape(places.shape[0], -1)
    flat = x.reshape(-1, rows.shape[1])
    places = places[:, None].expand(rows.shape)
    return _scattered(flat, 0, places, rows, reduction, node).reshape(x.shape)


@converter("Slice", since=10, static=["starts", "ends", "axes", "steps"])
def _slice(
    x: Tensor,
    starts: np.ndarray,
    ends: np.ndarray,
    axes: np.ndarray | None = None,
    steps: np.ndarray | None = None,
) -> Tensor:
    places = range(starts.size) if axes is None else axes.reshape(-1).tolist()
    strides = [1] * starts.size if steps is None else steps.reshape(-1).tolist()
    for axis, start, end, step in zip(
        places, starts.reshape(-1).tolist(), ends.reshape(-1).tolist(), strides, strict=True
    ):
        x = _sliced(x, axis % x.dim(), start, end, step)
    return x


@converter("Slice")
def _slice_attributes(
    x: Tensor, *, starts: list[int], ends: list[int], axes: list[int] | None = None
) -> Tensor:
    return _slice(x, np.array(starts), np.array(ends), None if axes is None else np.array(axes))


def _sliced(x: Tensor, axis: int, start: int, end: int, step: int) -> Tensor:
    """Slice as Python does; a negative step walks back from ``start``."""
    if step > 0:
        is_open = not isinstance(x.shape[axis], int)
        first = None if is_open and isinstance(start, int) and start < -FAR else start
        last = None if is_open and isinstance(end, int) and end > FAR else end
        return x[(slice(None),) * axis + (slice(first, last, step),)]
    extent = x.shape[axis]
    if not all(isinstance(n, int) for n in (extent, start, end)):
        first, last = (_from_behind(n, extent) for n in (start, end))
        return x.flip(axis)[(slice(None),) * axis + (slice(first, last, -step),)]
    # Walked from behind, the first element is the last one at or before ``start``.
    stop = None if end < -extent else end
    indices = list(range(extent))[slice(start, stop, step)]
    return x.index_select(axis, torch.tensor(indices, dtype=torch.int64))


def _from_behind(place: Any, extent: Any) -> Any:
    """Return where ``place`` of an axis lies in the axis turned round; ends may lie outside."""
    if isinstance(place, int) and abs(place) > FAR:
        return None if place < 0 else 0
    if isinstance(place, int) and place < 0:
        return -1 - place
    return torch.sym_max(0, extent - 1 - place)


@converter("OneHot", static=["depth"])
def _one_hot(indices: Tensor, depth: np.ndarray, values: Tensor, *, axis: int = -1) -> Tensor:
    size = int(depth.reshape(()))
    axis = axis + indices.dim() + 1 if axis < 0 else axis
    places = indices.to(torch.int64).unsqueeze(axis)
    places = torch.where(places < 0, places + size, places)
    shape = [-1 if i == axis else 1 for i in range(indices.dim() + 1)]
    hot = places == torch.arange(size).reshape(shape)
    return torch.where(hot, values[1], values[0])


@converter("TopK", since=10, static=["k"])
def _largest(
    x: Tensor, k: np.ndarray, *, axis: int = -1, largest: int = 1, sorted: int = 1
) -> tuple[Tensor, Tensor]:
    """Equal elements keep their order, as a stable sort does."""
    values, indices = torch.sort(x, dim=axis, descending=bool(largest), stable=True)
    count = k.reshape(()).item()  # perhaps an extent
    return values.narrow(axis, 0, count), indices.narrow(axis, 0, count)


@converter("TopK")
def _largest_of_attribute(x: Tensor, *, k: int, axis: int = -1) -> tuple[Tensor, Tensor]:
    return _largest(x, np.array(k), axis=axis)


@converter("TensorScatter")
def _write_cache(
    cache: Tensor,
    update: Tensor,
    write: Tensor | None = None,
    *,
    axis: int = -2,
    mode: str = "linear",
) -> Tensor:
    """Write ``update`` into ``cache`` from each batch's place on, around the end if circular."""
    axis %= cache.dim()
    length, extent = update.shape[axis], cache.shape[axis]
    first = torch.zeros(cache.shape[0], dtype=torch.int64) if write is None else write
    places = first.to(torch.int64)[:, None] + torch.arange(length)[None]
    if mode == "circular":
        places = torch.remainder(places, extent)
    shape = [n if i in (0, axis) else 1 for i, n in enumerate(update.shape)]
    return torch.scatter(cache, axis, places.reshape(shape).expand(update.shape), update)
