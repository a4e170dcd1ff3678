"""Order statistics by sorting, positions in sorted lists by halving."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tvm_sparse.frontends.decompositions.extents import largest_size
from tvm_sparse.frontends.decompositions.table import aten, rule


@rule(aten.sort.stable)
def _sort_stable(
    x: Tensor, *, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> Any:
    return aten.sort.default(x, dim, descending)


@rule(aten.sort.default)
def _sort(x: Tensor, dim: int = -1, descending: bool = False) -> Any:
    return NotImplemented if x.dim() else (x.clone(), torch.zeros_like(x, dtype=torch.int64))


@rule(aten.argsort.default, aten.argsort.stable)
def _argsort(x: Tensor, *args: Any, **kwargs: Any) -> Any:
    if args and len(args) == 3:  # stable came first
        args = args[1:]
    kwargs.pop("stable", None)
    return aten.sort.default(x, *args, **kwargs)[1]


@rule(aten.topk.default)
def _topk(x: Tensor, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    if isinstance(k, torch.SymInt):  # as many as follow from an open extent
        return tuple(part.narrow(dim, 0, k) for part in aten.sort.default(x, dim, largest))
    if x.dim() == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    if k == 0:
        values = x.narrow(dim, 0, 0)
        return values.clone(), torch.zeros_like(values, dtype=torch.int64)
    return NotImplemented if sorted else aten.topk.default(x, k, dim, largest, True)


def _picked(x: Tensor, places: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    """Return the elements of ``x`` at ``places``, of extent one along ``dim``, and the places."""
    values = torch.gather(x, dim, places)
    return (values, places) if keepdim else (values.squeeze(dim), places.squeeze(dim))


@rule(aten.kthvalue.default)
def _kth(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    if x.dim() == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    order = aten.sort.default(x, dim, False)[1]
    return _picked(x, order.narrow(dim, k - 1, 1), dim, keepdim)


@rule(aten.median.dim)
def _median(x: Tensor, dim: int, keepdim: bool = False) -> Any:
    """Of a line with NaN: NaN, which stands last in order."""
    if x.dim() == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    order = aten.sort.default(x, dim, False)[1]
    count = x.shape[dim]
    middle = order.narrow(dim, (count - 1) // 2, 1)
    if x.is_floating_point():
        broken = torch.isnan(x).any(dim, keepdim=True)
        first = torch.isnan(x).to(torch.int8).argmax(dim, keepdim=True)
        middle = torch.where(broken, first, middle)
    return _picked(x, middle, dim, keepdim)


@rule(aten.nanmedian.dim)
def _nanmedian(x: Tensor, dim: int, keepdim: bool = False) -> Any:
    if x.dim() == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    order = aten.sort.default(x, dim, False)[1]
    if not x.is_floating_point():
        return aten.median.dim(x, dim, keepdim)
    numbers = (~torch.isnan(x)).sum(dim, keepdim=True)
    place = ((numbers - 1) // 2).clamp(min=0)
    return _picked(x, torch.gather(order, dim, place), dim, keepdim)


@rule(aten.median.default)
def _median_of_all(x: Tensor) -> Tensor:
    return aten.median.dim(x.reshape(-1), 0)[0]


@rule(aten.nanmedian.default)
def _nanmedian_of_all(x: Tensor) -> Tensor:
    return aten.nanmedian.dim(x.reshape(-1), 0)[0]


@rule(aten.mode.default)
def _mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """Return the smallest of the most frequent elements."""
    if x.dim() == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    values, order = aten.sort.default(x, dim, False)
    moved = values.movedim(dim, -1)
    counts = (moved.unsqueeze(-1) == moved.unsqueeze(-2)).sum(-1)
    place = counts.argmax(-1, keepdim=True).movedim(-1, dim)
    return _picked(x, torch.gather(order, dim, place), dim, keepdim)


@rule(aten.searchsorted.Tensor)
def _searchsorted(
    sequence: Tensor,
    values: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Count the elements before each value, by steps that halve."""
    right = right if side is None else side == "right"
    if sorter is not None:
        sequence = torch.gather(sequence, -1, sorter)
    count, dtype = sequence.shape[-1], torch.int32 if out_int32 else torch.int64
    most = largest_size(count)
    place = torch.zeros_like(values, dtype=torch.int64)
    if most == 0:
        return place.to(dtype)
    common = torch.promote_types(sequence.dtype, values.dtype)
    sequence, values = sequence.to(common), values.to(common)
    for step in (1 << i for i in reversed(range(most.bit_length()))):
        reached = place + step
        last = (reached - 1).clamp(max=count - 1)
        if sequence.dim() == 1:
            found = sequence[last.reshape(-1)].reshape(last.shape)
        else:
            found = torch.gather(sequence, -1, last)
        stays = found > values if right else found >= values
        place = torch.where(~stays & (reached <= count), reached, place)
    return place.to(dtype)


@rule(aten.searchsorted.Scalar)
def _searchsorted_number(sequence: Tensor, value: float, **options: Any) -> Tensor:
    wanted = torch.full((), value, dtype=sequence.dtype, device=sequence.device)
    return aten.searchsorted.Tensor(sequence, wanted.reshape(1), **options).reshape(())


@rule(aten.bucketize.Tensor)
def _bucketize(
    x: Tensor, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    return aten.searchsorted.Tensor(
        boundaries, x.reshape(-1), out_int32=out_int32, right=right
    ).reshape(x.shape)


@rule(aten.bucketize.Scalar)
def _bucketize_number(value: float, boundaries: Tensor, **options: Any) -> Tensor:
    return aten.searchsorted.Scalar(boundaries, value, **options)
