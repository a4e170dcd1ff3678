"""Pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.nn.functional import pad

from tvm_sparse.frontends.converters.axes import for_each_axis
from tvm_sparse.frontends.decompositions.table import aten, rule


def _average(rank: int) -> None:
    """Enter the rule of the average over ``rank`` axes, the last ones."""
    operator = {2: aten.avg_pool2d, 3: aten.avg_pool3d}[rank].default

    @rule(operator)
    def average(  # noqa: PLR0917 (the operator's own signature)
        x: Tensor,
        kernel: Sequence[int],
        stride: Sequence[int] = (),
        padding: Sequence[int] = (0,),
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        if x.dim() == rank + 1:
            options = (ceil_mode, count_include_pad, divisor_override)
            return operator(x.unsqueeze(0), kernel, stride, padding, *options).squeeze(0)
        if divisor_override is None:
            return NotImplemented
        window, strides, before = (
            for_each_axis(v, rank) for v in (kernel, stride or kernel, padding)
        )
        borders: list[int] = []
        for extent, k, s, p in reversed(
            list(zip(x.shape[-rank:], window, strides, before, strict=True))
        ):
            borders += [p, p + (_beyond(extent + 2 * p, extent + p, k, s) if ceil_mode else 0)]
        area = math.prod(window)
        if x.is_floating_point():
            return operator(pad(x, borders), window, strides) * (area / divisor_override)
        sums = operator(pad(x.to(torch.float64), borders), window, strides) * area
        return torch.div(sums.round().to(x.dtype), divisor_override, rounding_mode="trunc")


def _adaptive(rank: int) -> None:
    """Enter the rule of the adaptive average over ``rank`` axes, the last ones."""
    operator = {2: aten._adaptive_avg_pool2d, 3: aten._adaptive_avg_pool3d}[rank].default

    @rule(operator)
    def average(x: Tensor, shape: Sequence[Any]) -> Any:
        """Average over fixed sizes: open axes that keep their extent go to the channels."""
        if x.dim() == rank + 1:
            return operator(x.unsqueeze(0), shape).squeeze(0)
        kept = [axis for axis, n in enumerate(shape, 2) if isinstance(n, torch.SymInt)]
        if not kept or not all(statically_known_true(shape[a - 2] == x.shape[a]) for a in kept):
            return NotImplemented
        order = sorted(range(2, rank + 2), key=lambda axis: axis not in kept)
        moved = x.permute(0, 1, *order)
        rows = moved.flatten(1, 1 + len(kept))[(slice(None), slice(None), *[None] * len(kept))]
        sizes = [1 if axis in kept else shape[axis - 2] for axis in order]
        found = operator(rows, sizes).reshape(*moved.shape[: 2 + len(kept)], *sizes[len(kept) :])
        return found.permute(0, 1, *(2 + order.index(axis) for axis in range(2, rank + 2)))


@rule(aten.adaptive_max_pool2d.default, aten.adaptive_max_pool3d.default)
def _largest(x: Tensor, shape: Sequence[int]) -> Any:
    """Of one window over open planes: the converter's windows are of fixed ones."""
    axes = range(x.dim() - len(shape), x.dim())
    if any(n != 1 for n in shape) or all(isinstance(x.shape[axis], int) for axis in axes):
        return NotImplemented
    places = x.flatten(-len(shape)).argmax(-1)
    for _ in axes:
        places = places.unsqueeze(-1)
    return x.amax(tuple(axes), keepdim=True), places


def _beyond(padded: int, last: int, window: int, stride: int) -> int:
    """Return by how much the last window, which begins before ``last``, passes the border."""
    windows = -(-(padded - window) // stride) + 1
    windows -= (windows - 1) * stride >= last
    return max(0, (windows - 1) * stride + window - padded)


for _rank in (2, 3):
    _average(_rank)
    _adaptive(_rank)
