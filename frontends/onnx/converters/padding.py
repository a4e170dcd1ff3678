"""Padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from tvm_sparse.frontends.onnx.node import Node
from tvm_sparse.frontends.onnx.registry import converter


@converter("Pad", since=2)
def _pad_attributes(
    x: Tensor, *, pads: Sequence[int], mode: str = "constant", value: float = 0.0, node: Node
) -> Tensor:
    return _pad(x, np.array(pads), np.array(value), mode=mode, node=node)


@converter("Pad", since=11, static=["pads", "axes"], known=["value"])
def _pad(
    x: Tensor,
    pads: np.ndarray,
    value: Tensor | np.ndarray | None = None,
    axes: np.ndarray | None = None,
    *,
    mode: str = "constant",
    node: Node,
) -> Tensor:
    places = range(x.dim()) if axes is None else [int(a) % x.dim() for a in axes]
    sides = pads.reshape(-1).tolist()
    if len(sides) != 2 * len(places):
        raise node.unsound(f"has {len(sides)} pads", f"{2 * len(places)}")
    begin, end = [0] * x.dim(), [0] * x.dim()
    for i, place in enumerate(places):
        begin[place], end[place] = sides[i], sides[i + len(places)]
    if mode == "constant":
        return _constant(x, begin, end, value)
    if mode not in _MODES:
        raise node.unsound(f"mode '{mode}'", f"constant, {', '.join(_MODES)}")
    for axis in range(x.dim()):
        before, after, extent = begin[axis], end[axis], x.shape[axis]
        if not all(isinstance(n, int) for n in (before, after, extent)):
            x = x.index_select(axis, _open_indices(mode, before, after, extent))
        elif before or after:
            index = np.arange(-before, extent + after)
            x = x.index_select(axis, torch.from_numpy(_MODES[mode](index, extent)))
    return x


def _open_indices(mode: str, before: Any, after: Any, extent: Any) -> Tensor:
    """Return which elements an axis of open extent is padded with: each end reaches back once."""
    index = torch.arange(-before, extent + after)
    last = torch.scalar_tensor(extent - 1, dtype=torch.int64)
    if mode == "edge":
        return torch.minimum(torch.clamp(index, min=0), last)
    reach = extent - 1 if mode == "reflect" else extent
    for side in (before, after):
        torch._check(side <= reach, lambda: "it reaches farther than the axis is long")
    if mode == "reflect":
        return last - abs(last - abs(index))
    wrapped = torch.where(index < 0, index + last + 1, index)
    return torch.where(index > last, index - last - 1, wrapped)


def _constant(
    x: Tensor, begin: list[Any], end: list[Any], value: Tensor | np.ndarray | None
) -> Tensor:
    """Pad with a known number; another value is put where zeros are."""
    sides = [n for pair in list(zip(begin, end, strict=True))[::-1] for n in pair]
    if value is None:
        return F.pad(x, sides)
    if isinstance(value, np.ndarray):
        number = value.reshape(()).item()
        if number == 0 or x.is_floating_point():
            return F.pad(x, sides, value=number)
        value = torch.tensor(number)
    result = F.pad(x, sides)
    inside = F.pad(torch.ones(x.shape, dtype=torch.bool), sides)
    return torch.where(inside, result, value.reshape(()).to(x.dtype))


def _mirrored(index: np.ndarray, extent: int) -> np.ndarray:
    period = max(1, 2 * (extent - 1))
    index = np.remainder(index, period)
    return np.minimum(index, period - index) if extent > 1 else index * 0


_MODES: dict[str, Any] = {
    "edge": lambda index, extent: np.clip(index, 0, extent - 1),
    "reflect": _mirrored,
    "wrap": np.remainder,
}


@converter("Col2Im", static=["image", "block"])
def _columns_to_image(
    x: Tensor,
    image: np.ndarray,
    block: np.ndarray,
    *,
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
) -> Tensor:
    """Add each block where it came from: one scattered sum over the padded image."""
    rank = image.size
    steps, gaps = strides or [1] * rank, dilations or [1] * rank
    sides = pads or [0] * 2 * rank
    extents = [int(n) + sides[i] + sides[i + rank] for i, n in enumerate(image)]
    kernel = [int(n) for n in block]
    counts = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, d, s in zip(extents, kernel, gaps, steps, strict=True)
    ]
    place: Any = np.zeros(1, np.int64)
    taps = np.indices(kernel).reshape(rank, -1, 1)
    blocks = np.indices(counts).reshape(rank, 1, -1)
    for axis in range(rank):
        along = taps[axis] * gaps[axis] + blocks[axis] * steps[axis]
        place = place * extents[axis] + along
    n, channels = x.shape[0], x.shape[1] // int(np.prod(kernel))
    index = torch.from_numpy(place.reshape(1, 1, -1)).expand(n, channels, -1)
    flat = torch.zeros(n, channels, int(np.prod(extents)), dtype=x.dtype)
    summed = torch.scatter_add(flat, 2, index, x.reshape(n, channels, -1))
    result = summed.reshape(n, channels, *extents)
    for axis in range(rank):
        result = result.narrow(axis + 2, sides[axis], int(image[axis]))
    return result
