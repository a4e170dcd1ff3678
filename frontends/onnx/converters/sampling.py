"""Values at places that the input gives: GridSample and RoiAlign."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tvm_sparse.frontends.onnx.node import Node
from tvm_sparse.frontends.onnx.registry import converter

_MODES = {"linear": "bilinear", "cubic": "bicubic"}
"""Names of version 20, and what PyTorch calls them: the older ones."""


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
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise node.unsound(f"mode '{mode}'", "linear, nearest or cubic")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise node.unsound(f"padding_mode '{padding_mode}'", "zeros, border or reflection")
    if x.dim() > 5 or (x.dim() == 5 and mode == "bicubic"):
        raise node.refuse(f"mode '{mode}' of {x.dim() - 2} axes", "planes, or volumes not cubic")
    if not x.is_floating_point() and mode != "nearest":
        raise node.refuse(f"mode '{mode}' of integers", "mode nearest, or floats")
    exact = torch.promote_types(x.dtype, grid.dtype) if x.is_floating_point() else torch.float64
    planes, places = x.to(exact), grid.to(exact)
    if x.dim() == 3:  # a line is a plane of height one
        planes = planes.unsqueeze(2)
        places = torch.cat([places, torch.zeros_like(places)], -1).unsqueeze(1)
    found = _sampled(planes, places, mode, padding_mode, bool(align_corners)).to(x.dtype)
    return found.squeeze(2) if x.dim() == 3 else found


def _sampled(x: Tensor, grid: Tensor, mode: str, padding: str, corners: bool) -> Tensor:
    if mode == "nearest" and padding == "reflection":
        grid, padding, corners = _nearest(grid, x.shape[2:], corners), "border", False
    return F.grid_sample(x, grid, mode, padding, corners)


def _nearest(grid: Tensor, extents: Sequence[int], corners: bool) -> Tensor:
    """Return the grid of the elements that places reflect to: ONNX rounds first, PyTorch last."""
    columns = []
    for column, extent in zip(grid.unbind(-1), reversed(extents), strict=True):
        if corners:
            place = (column + 1) / 2 * (extent - 1)
        else:
            place = ((column + 1) * extent - 1) / 2
        element = _reflected(torch.round(place), extent, corners)
        columns.append((element * 2 + 1) / extent - 1)
    return torch.stack(columns, -1)


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
