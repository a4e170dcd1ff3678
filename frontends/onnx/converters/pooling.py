"""Pooling."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from tvm_sparse.frontends.onnx.converters.windows import ATTRIBUTES, Windows, windows
from tvm_sparse.frontends.onnx.node import Node
from tvm_sparse.frontends.onnx.registry import converter

WINDOWS = (*ATTRIBUTES, "ceil_mode")
"""Attributes of pooling that place its windows."""

_MAX: dict[int, Any] = {2: F.max_pool2d, 3: F.max_pool3d}
_AVERAGE: dict[int, Any] = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


@converter("MaxPool", reads=WINDOWS)
def max_pool(
    x: Tensor,
    *,
    kernel_shape: Sequence[int],
    storage_order: int = 0,
    node: Node,
) -> Any:
    """Return the largest element of each window, and its place where a second output asks."""
    place = windows(x, kernel_shape, node)
    lowest = -torch.inf if x.is_floating_point() else torch.iinfo(x.dtype).min
    if len(node.outputs) > 1 and node.outputs[1]:
        return _with_places(x, place, lowest, storage_order)
    if len(place.kernel) > max(_MAX):
        return _combined(torch.maximum, place.pad(x, lowest, overhang=True), place)
    fits = all(2 * p <= k for p, k in zip(place.begin, place.kernel, strict=True))
    if not (place.symmetric and fits):
        return _largest(place.pad(x, lowest, overhang=True), place, [0] * len(place.begin))
    return _largest(x, place, place.begin, ceil=place.hangs_over)


def _largest(x: Tensor, place: Windows, padding: Sequence[int], *, ceil: bool = False) -> Tensor:
    """Return the largest element of each window; with ``ceil`` the last may pass the padded end."""
    sizes = [list(each) for each in (place.kernel, place.strides, padding, place.dilations)]
    if len(place.kernel) == 1:  # torch pools no lines of integers: they are planes of one row
        sizes = [[none, *each] for none, each in zip((1, 1, 0, 1), sizes, strict=True)]
        return _MAX[2](x.unsqueeze(-2), *sizes, ceil_mode=ceil).squeeze(-2)
    return _MAX[len(place.kernel)](x, *sizes, ceil_mode=ceil)


def _combined(operator: Any, x: Tensor, place: Windows) -> Tensor:
    """Return the elements of each window of the padded ``x`` combined, axis after axis."""
    for axis in range(len(place.kernel)):
        along = [_tap(x, place, axis, number) for number in range(place.kernel[axis])]
        x = functools.reduce(operator, along)
    return x


def _tap(x: Tensor, place: Windows, axis: int, number: int) -> Tensor:
    """Return the element ``number`` of all windows along one axis."""
    first = number * place.dilations[axis]
    last = first + (place.outputs[axis] - 1) * place.strides[axis] + 1
    return x[(slice(None),) * (2 + axis) + (slice(first, last, place.strides[axis]),)]


def _taps(x: Tensor, place: Windows) -> Any:
    """Yield, for each element of the kernel, that element of all windows of the padded ``x``."""
    for tap in itertools.product(*map(range, place.kernel)):
        view = x
        for axis, number in enumerate(tap):
            view = _tap(view, place, axis, number)
        yield view


def _with_places(
    x: Tensor, place: Windows, lowest: float, storage_order: int
) -> tuple[Tensor, Tensor]:
    """Return maxima and their places in the whole input, its axes in row- or column-major order."""
    stacked = torch.stack(list(_taps(place.pad(x, lowest, overhang=True), place)), -1)
    first = torch.argmax(stacked, -1, keepdim=True)
    values = torch.gather(stacked, -1, first).squeeze(-1)
    numbers = np.arange(int(np.prod(place.extents)))
    numbers = numbers.reshape(place.extents[::-1]).T if storage_order else numbers
    numbers = numbers.reshape(place.extents)
    table = torch.from_numpy(np.ascontiguousarray(numbers))[None, None]
    inside = torch.stack(list(_taps(place.pad(table, -1, overhang=True), place)), -1)
    planes = torch.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *[1] * len(place.kernel))
    within = torch.gather(inside.expand(stacked.shape), -1, first).squeeze(-1)
    return values, within + planes * numbers.size


@converter("AveragePool", reads=WINDOWS)
def average_pool(
    x: Tensor,
    *,
    kernel_shape: Sequence[int],
    count_include_pad: int = 0,
    node: Node,
) -> Tensor:
    """Return the mean of each window."""
    place = windows(x, kernel_shape, node)
    fits = all(2 * p <= k for p, k in zip(place.begin, place.kernel, strict=True))
    plain = max(place.dilations) == 1 and place.symmetric and fits and len(place.kernel) in _AVERAGE
    if plain and not place.hangs_over:
        return _AVERAGE[len(place.kernel)](
            x, place.kernel, place.strides, place.begin, False, bool(count_include_pad)
        )
    total = _sum(place.pad(x, 0, overhang=True), place)
    for axis in range(len(place.kernel)):
        count = _counts(place, axis, padding=bool(count_include_pad))
        total = total / count.to(x.dtype).reshape(-1, *[1] * (len(place.kernel) - 1 - axis))
    return total


def _sum(x: Tensor, place: Windows) -> Tensor:
    """Return the sum of each window of the padded ``x``."""
    simple = max(place.dilations) == 1 and len(place.kernel) in _AVERAGE
    if all(isinstance(n, int) for n in place.extents) or not simple:
        return _combined(torch.add, x, place)
    mean = _AVERAGE[len(place.kernel)](x, place.kernel, place.strides)
    return mean * math.prod(place.kernel)


def _counts(place: Windows, axis: int, *, padding: bool) -> Tensor:
    """Return how many elements of each window along one axis count."""
    low = -place.begin[axis] if padding else 0
    high = place.extents[axis] + (place.end[axis] if padding else 0)
    if all(isinstance(n, int) for n in (low, high, place.outputs[axis])):
        position = _positions(np, place, axis)
        return torch.from_numpy(((position >= low) & (position < high)).sum(1))
    position = _positions(torch, place, axis)
    return ((position >= low) & (position < high)).to(torch.int64).sum(1)


def _positions(xp: Any, place: Windows, axis: int) -> Any:
    """Return where the elements of each window lie along one axis, by NumPy or torch."""
    first = xp.arange(place.outputs[axis])[:, None] * place.strides[axis] - place.begin[axis]
    return first + xp.arange(place.kernel[axis]) * place.dilations[axis]


@converter("LpPool", reads=WINDOWS)
def _lp_pool(
    x: Tensor,
    *,
    kernel_shape: Sequence[int],
    p: int = 2,
    node: Node,
) -> Tensor:
    place = windows(x, kernel_shape, node)
    total = _combined(torch.add, place.pad(x.abs() ** p, 0, overhang=True), place)
    return total ** (1 / p)


@converter("GlobalAveragePool")
def _global_average(x: Tensor) -> Tensor:
    return x.mean(list(range(2, x.dim())), keepdim=True)


@converter("GlobalMaxPool")
def _global_max(x: Tensor) -> Tensor:
    return x.amax(list(range(2, x.dim())), keepdim=True)


@converter("GlobalLpPool")
def _global_lp(x: Tensor, *, p: int = 2) -> Tensor:
    return (x.abs() ** p).sum(list(range(2, x.dim())), keepdim=True) ** (1 / p)


@converter("MaxUnpool", static=["output_shape"])
def _max_unpool(
    x: Tensor,
    indices: Tensor,
    output_shape: np.ndarray | None = None,
    *,
    kernel_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
) -> Tensor:
    """Places count in the tensor without padding of the given shape, or the smallest one."""
    rank = len(kernel_shape)
    steps, sides = strides or [1] * rank, pads or [0] * 2 * rank
    small = [
        (n - 1) * s - sides[i] - sides[i + rank] + k
        for i, (n, s, k) in enumerate(zip(x.shape[2:], steps, kernel_shape, strict=True))
    ]
    inner = [*x.shape[:2], *small]
    flat = torch.zeros(int(np.prod(inner)), dtype=x.dtype)
    flat = torch.scatter(flat, 0, indices.reshape(-1), x.reshape(-1))
    result = flat.reshape(inner)
    if output_shape is None:
        return result
    more = [int(n) - m for n, m in zip(output_shape[2:], small, strict=True)][::-1]
    return F.pad(result, [n for m in more for n in (0, m)])
