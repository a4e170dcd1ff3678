"""Views: other orders, repetition, elements picked in a fixed pattern, and writing through them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.frontends.decompositions.table import aten, rule
from tvm_sparse.frontends.program.open_table import is_known, is_same


@rule(aten.unfold.default, aten.unfold_copy.default)
def _unfold(x: Tensor, dimension: int, size: int, step: int) -> Tensor:
    if x.dim() == 0:
        return x.reshape(1)[:size].clone()
    dim = dimension % x.dim()
    count = (x.shape[dim] - size) // step + 1
    first = torch.arange(count, device=x.device) * step
    places = first[:, None] + torch.arange(size, device=x.device)
    found = x.index_select(dim, places.reshape(-1)).unflatten(dim, (count, size))
    return found.movedim(dim + 1, -1)


@rule(aten.roll.default)
def _roll(x: Tensor, shifts: Any, dims: Sequence[int] = ()) -> Any:
    """Join both parts of each axis where a shift or an extent is open.

    A number is counted around the axis; another shift is compared with the extent.
    """
    shifts = shifts if isinstance(shifts, Sequence) else [shifts]
    turned = [x.shape[dim] for dim in dims] if dims else x.shape
    if all(isinstance(number, int) for number in (*shifts, *turned)):
        return NotImplemented
    if not dims:
        return aten.roll.default(x.reshape(-1), shifts, [0]).reshape(x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        extent = x.shape[dim]
        if isinstance(shift, int) and not (
            is_known(-extent <= shift) and is_known(shift <= extent)
        ):
            shift = shift % extent  # noqa: PLW2901
        elif not -extent <= shift <= extent:
            raise UnsupportedError(
                "operator 'roll'", f"shifts {extent} elements by {shift}", "at most once around"
            )
        cut = extent - shift if shift >= 0 else -shift
        parts = x.narrow(dim, cut, extent - cut), x.narrow(dim, 0, cut)
        x = torch.cat(parts, dim)
    return x


@rule(aten.repeat.default)
def _repeat(x: Tensor, repeats: Sequence[Any]) -> Any:
    """Broadcast along a new axis before each one where how often follows from an open extent."""
    if all(isinstance(times, int) for times in repeats):
        return NotImplemented
    shape = [1] * (len(repeats) - x.dim()) + list(x.shape)
    apart = x.reshape([part for extent in shape for part in (1, extent)])
    wide = apart.expand([part for pair in zip(repeats, shape, strict=True) for part in pair])
    return wide.reshape([times * size for times, size in zip(repeats, shape, strict=True)])


@rule(aten.triu.default)
def _upper_part(x: Tensor, diagonal: Any = 0) -> Any:
    return _part(x, diagonal, torch.ge)


@rule(aten.tril.default)
def _lower_part(x: Tensor, diagonal: Any = 0) -> Any:
    return _part(x, diagonal, torch.le)


def _part(x: Tensor, diagonal: Any, kept: Callable[[Tensor, Tensor], Tensor]) -> Any:
    """Keep one side of a diagonal that follows from an open extent."""
    if isinstance(diagonal, int):
        return NotImplemented
    rows, columns = x.shape[-2:]
    places = torch.arange(-diagonal, columns - diagonal, device=x.device)
    inside = kept(places, torch.arange(rows, device=x.device)[:, None])
    return torch.where(inside, x, torch.zeros((), dtype=x.dtype, device=x.device))


@rule(aten.split_with_sizes.default)
def _split(x: Tensor, sizes: Sequence[Any], dim: int = 0) -> Any:
    """Cut parts of open extents out one by one."""
    if all(isinstance(size, int) for size in sizes):
        return NotImplemented
    ends = [0, *itertools.accumulate(sizes)]
    return [x.narrow(dim, first, size) for first, size in zip(ends, sizes, strict=False)]


@rule(aten.im2col.default)
def _windows(x: Tensor, *numbers: Any) -> Any:
    """Keep static planes for a function of our own; others look each element up."""
    if all(isinstance(extent, int) and extent for extent in x.shape):
        return NotImplemented
    return decomposition_table[aten.im2col.default](x, *numbers)


@rule(aten.permute.default)
def _permute(x: Tensor, dims: Sequence[int]) -> Any:
    """Count axes from the first one: TVM's change of layouts knows no others."""
    if all(dim >= 0 for dim in dims):
        return NotImplemented
    return x.permute([dim % x.dim() for dim in dims])


@rule(aten.as_strided.default, aten.as_strided_copy.default)
def _as_strided(
    x: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    if not storage_offset and _is_reshape(x, size, stride):
        return x.reshape(tuple(size))
    places = _places(x, size, stride, storage_offset)
    return x.reshape(-1).index_select(0, places.reshape(-1)).reshape(tuple(size))


def _is_reshape(x: Tensor, size: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether the view has all elements of ``x`` in their order."""
    count: Any = 1
    for extent, step in zip(reversed(size), reversed(stride), strict=True):
        if extent != 1 and step != count:
            return False
        count = count * extent
    return count == x.numel()


@rule(aten.as_strided_scatter.default)
def _as_strided_scatter(
    x: Tensor,
    src: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Tensor:
    return _written(x, _places(x, size, stride, storage_offset), src)


def _places(x: Tensor, size: Sequence[int], stride: Sequence[int], offset: int | None) -> Tensor:
    """Return the flat positions in ``x`` of a view of its memory."""
    last = (offset or 0) + sum((e - 1) * s for e, s in zip(size, stride, strict=True))
    if not x.is_contiguous() or x.storage_offset() or (last >= x.numel() and 0 not in size):
        raise UnsupportedError(
            "as_strided", "looks at memory beside a tensor's own elements", "a contiguous tensor"
        )
    places = torch.full((), offset or 0, dtype=torch.int64, device=x.device)
    for extent, step in zip(size, stride, strict=True):
        places = places.unsqueeze(-1) + torch.arange(extent, device=x.device) * step
    return places


@rule(aten.diagonal.default)
def _diagonal(x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """Pick elements out of flat planes unless these are closed, or a square's diagonal is whole."""
    rows, columns = x.shape[dim1], x.shape[dim2]
    closed = isinstance(rows, int) and isinstance(columns, int)
    if closed or (offset == 0 and is_same(rows, columns)):
        return NotImplemented
    down, right = max(-offset, 0), max(offset, 0)
    count = torch.sym_max(torch.sym_min(rows - down, columns - right), 0)
    place = torch.arange(count, device=x.device)
    flat = x.movedim((dim1, dim2), (-2, -1)).flatten(-2)
    return flat.index_select(-1, (place + down) * columns + place + right)


@rule(aten.trace.default)
def _trace(x: Tensor) -> Tensor:
    return x.diagonal().sum()


@rule(aten.diagonal_scatter.default)
def _diagonal_scatter(
    x: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    return _through(x, src, lambda places: places.diagonal(offset, dim1, dim2))


@rule(aten.select_scatter.default)
def _select_scatter(x: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    return _through(x, src, lambda places: places.select(dim, index))


@rule(aten.slice_scatter.default)
def _slice_scatter(  # noqa: PLR0917 (the operator's own signature)
    x: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Any:
    if any(not isinstance(extent, int) for extent in x.shape):
        return _written_slice(x, src, dim % x.dim(), start or 0, step)
    return _through(x, src, lambda places: aten.slice.Tensor(places, dim, start, end, step))


def _written_slice(x: Tensor, src: Tensor, dim: int, start: Any, step: int) -> Tensor:
    """Return ``x`` with ``src`` in each ``step``-th place of an axis from ``start`` on.

    Each place takes an element of ``src``, which has one more for places outside.
    """
    extent, count = x.shape[dim], src.shape[dim]
    first = torch.sym_min(start, extent) if start >= 0 else torch.sym_max(start + extent, 0)
    apart = torch.arange(extent, device=x.device) - first
    inside = (apart >= 0) & (apart < count * step) & (apart % step == 0)
    places = torch.where(inside, apart // step, count)
    longer = torch.cat([src, src.new_zeros(_with(src.shape, dim, 1))], dim).to(x.dtype)
    mask = inside.reshape([-1, *[1] * (x.dim() - 1 - dim)])
    return torch.where(mask, longer.index_select(dim, places), x)


def _with(shape: Sequence[Any], axis: int, extent: Any) -> list[Any]:
    return [*shape[:axis], extent, *shape[axis + 1 :]]


def _through(x: Tensor, src: Tensor, view: Callable[[Tensor], Tensor]) -> Tensor:
    """Return ``x`` with ``src`` written into a view of it."""
    places = view(torch.arange(x.numel(), device=x.device).reshape(x.shape))
    return _written(x, places, src.expand(places.shape))


def _written(x: Tensor, places: Tensor, src: Tensor) -> Tensor:
    flat = aten.scatter.src(x.reshape(-1), 0, places.reshape(-1), src.reshape(-1).to(x.dtype))
    return flat.reshape(x.shape)
