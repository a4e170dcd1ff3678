"""Values at places that the input gives: GridSample and RoiAlign."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor

from tvm_sparse.frontends.onnx.node import Node
from tvm_sparse.frontends.onnx.registry import converter

_MODES = {"bilinear": "linear", "bicubic": "cubic"}
"""Names of before version 20."""


@converter("GridSample")
def _grid_sample(
    x: Tensor,
    grid: Tensor,
    *,
    mode: str = "linear",
    padding_mode: str = "zeros",
    align_corners: int = 0,
    node: Node,
) -> Tensor:
    mode = _MODES.get(mode, mode)
    if mode not in ("linear", "nearest", "cubic"):
        raise node.unsound(f"mode '{mode}'", "linear, nearest or cubic")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise node.unsound(f"padding_mode '{padding_mode}'", "zeros, border or reflection")
    extents = x.shape[2:]
    rank = len(extents)
    axes = []
    for axis, extent in enumerate(extents):
        place = grid[..., rank - 1 - axis]
        if align_corners:
            place = (place + 1) / 2 * (extent - 1)
        else:
            place = ((place + 1) * extent - 1) / 2
        place = torch.round(place) if mode == "nearest" else place
        place = _inside(place, extent, padding_mode, bool(align_corners))
        axes.append(
            [
                (_pixel(index, extent, padding_mode, bool(align_corners)), weight)
                for index, weight in _neighbours(place, mode)
            ]
        )
    return _summed(x, axes)


def _inside(place: Tensor, extent: int, padding: str, corners: bool) -> Tensor:
    """Return places outside as the padding mode sees them."""
    if padding == "border":
        return place.clamp(0, extent - 1)
    return _reflected(place, extent, corners) if padding == "reflection" else place


def _reflected(place: Tensor, extent: int, corners: bool) -> Tensor:
    """Mirror at the first and last element, or at their outer edges."""
    low, high = (0.0, extent - 1.0) if corners else (-0.5, extent - 0.5)
    span = high - low
    if span == 0:
        return torch.zeros_like(place)
    distance = (place - low).abs()
    turns = torch.floor(distance / span)
    rest = distance - turns * span
    even = torch.remainder(turns, 2) == 0
    return torch.where(even, low + rest, high - rest)


def _neighbours(place: Tensor, mode: str) -> list[tuple[Tensor, Tensor]]:
    """Return the elements around ``place`` along one axis, with their weights."""
    if mode == "nearest":
        return [(place, torch.ones_like(place))]
    first = place.floor()
    t = place - first
    if mode == "linear":
        return [(first, 1 - t), (first + 1, t)]
    a = -0.75

    def near(x: Tensor) -> Tensor:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Tensor) -> Tensor:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    weights = [far(t + 1), near(t), near(1 - t), far(2 - t)]
    return [(first + i - 1, weight) for i, weight in enumerate(weights)]


def _pixel(index: Tensor, extent: int, padding: str, corners: bool) -> tuple[Tensor, Tensor]:
    """Return an element of the axis for ``index``, and whether it counts."""
    if padding == "reflection":
        index = torch.trunc(_reflected(index, extent, corners))
    counts = (index >= 0) & (index <= extent - 1)
    element = index.clamp(0, extent - 1).to(torch.int64)
    return element, counts if padding == "zeros" else torch.ones_like(counts)


def _summed(x: Tensor, axes: list[Any]) -> Tensor:
    """Return the sum of the elements of ``x`` that ``axes`` name, weights multiplied."""
    n, channels, *extents = x.shape
    flat = x.reshape(n, channels, -1)
    total: Any = None
    for chosen in itertools.product(*axes):
        place: Any = 0
        share: Any = None
        counts: Any = None
        for ((element, valid), weight), extent in zip(chosen, extents, strict=True):
            place = place * extent + element
            share = weight if share is None else share * weight
            counts = valid if counts is None else counts & valid
        index = place.reshape(n, 1, -1).expand(n, channels, -1)
        values = torch.gather(flat, 2, index).reshape(n, channels, *place.shape[1:])
        share = torch.where(counts, share, torch.zeros_like(share)).to(x.dtype)
        # Elements that do not count are cut, whatever they hold.
        term = torch.where(counts[:, None], values, torch.zeros_like(values)) * share[:, None]
        total = term if total is None else total + term
    return total


@converter("RoiAlign", since=10)
def _roi_align(
    x: Tensor,
    rois: Tensor,
    batch: Tensor,
    *,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
    coordinate_transformation_mode: str | None = None,
    node: Node,
) -> Tensor:
    """Before version 16 regions were not shifted by half a pixel."""
    if sampling_ratio <= 0:
        raise node.refuse("as many samples as the regions are large", "a sampling_ratio")
    transformation = coordinate_transformation_mode or (
        "half_pixel" if node.opset >= 16 else "output_half_pixel"
    )
    shift = 0.5 if transformation == "half_pixel" else 0.0
    corners = rois * spatial_scale - shift
    height, width = x.shape[2:]
    rows = _samples(corners[:, 1], corners[:, 3], output_height, sampling_ratio, shift == 0)
    columns = _samples(corners[:, 0], corners[:, 2], output_width, sampling_ratio, shift == 0)
    regions = x.index_select(0, batch.to(torch.int64)).flatten(2)
    values: Any = None
    for down, right in ((0, 0), (0, 1), (1, 0), (1, 1)):
        y, y_share = _side(rows, height, down)
        z, z_share = _side(columns, width, right)
        place = y[:, :, None] * width + z[:, None]
        share = y_share[:, :, None] * z_share[:, None]
        index = place.reshape(place.shape[0], 1, -1).expand(-1, x.shape[1], -1)
        found = torch.gather(regions, 2, index).reshape(-1, x.shape[1], *place.shape[1:])
        term = found * share[:, None]
        if values is None:
            values = term
        else:
            values = values + term if mode == "avg" else torch.maximum(values, term)
    values = values.unflatten(3, (output_width, sampling_ratio))
    values = values.unflatten(2, (output_height, sampling_ratio))
    return values.mean((3, 5)) if mode == "avg" else values.amax((3, 5))


def _samples(start: Tensor, end: Tensor, size: int, ratio: int, at_least_one: bool) -> Tensor:
    """Return places along one axis, (regions, size * ratio)."""
    length = (end - start).clamp(min=1) if at_least_one else end - start
    steps = (torch.arange(size * ratio, dtype=start.dtype) + 0.5) / (size * ratio)
    return start[:, None] + length[:, None] * steps


def _side(places: Tensor, extent: int, after: int) -> tuple[Tensor, Tensor]:
    """Return the element before or after each place, and its share; none far outside."""
    outside = (places < -1) | (places > extent)
    inner = places.clamp(0, extent - 1)
    first = inner.floor()
    share = inner - first if after else 1 - (inner - first)
    element = (first + after).clamp(max=extent - 1).to(torch.int64)
    return element, torch.where(outside, torch.zeros_like(share), share)
