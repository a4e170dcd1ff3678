"""Samples of an image or volume at places that a grid gives."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.frontends.decompositions.table import aten, rule

_BILINEAR, _NEAREST, _BICUBIC = range(3)
_ZEROS, _BORDER, _REFLECTION = range(3)


@rule(aten.grid_sampler_2d.default, aten.grid_sampler_3d.default)
def _grid_sample(x: Tensor, grid: Tensor, mode: int, padding: int, align: bool) -> Tensor:
    """Sample ``x`` [N, C, ...] at ``grid`` [N, ..., r], where the last axis of ``x`` is first."""
    if mode == _BICUBIC:
        if x.dim() != 4:
            raise UnsupportedError("grid_sample", "bicubic of volumes", "bilinear or nearest")
        return decomposition_table[aten.grid_sampler_2d.default](x, grid, mode, padding, align)
    extents = x.shape[2:]
    places = [
        _place(grid[..., -1 - axis], extent, padding, align) for axis, extent in enumerate(extents)
    ]
    if mode == _NEAREST:
        return _picked(x, [place.round() for place in places])
    lower = [place.floor() for place in places]
    total = torch.zeros((), dtype=x.dtype)
    for corner in itertools.product((0, 1), repeat=len(places)):
        weight = torch.ones((), dtype=x.dtype)
        for place, low, upper in zip(places, lower, corner, strict=True):
            weight = weight * (place - low if upper else low + 1 - place)
        picked = _picked(x, [low + upper for low, upper in zip(lower, corner, strict=True)])
        total = total + picked * weight.unsqueeze(1)
    return total


def _place(grid: Tensor, extent: int, padding: int, align: bool) -> Tensor:
    """Return where from -1 to 1 stands on an axis of ``extent`` elements; NaN is outside."""
    place = (grid + 1) / 2 * (extent - 1) if align else ((grid + 1) * extent - 1) / 2
    place = torch.where(place.isnan(), -1.0, place)
    if padding == _REFLECTION:
        low, high = (0.0, extent - 1.0) if align else (-0.5, extent - 0.5)
        place = _reflected(place, low, high)
    if padding != _ZEROS:
        place = place.clamp(0, extent - 1)
    # Beyond, everything is outside: indices must fit a whole number.
    return place.clamp(-2, extent + 1)


def _reflected(place: Tensor, low: float, high: float) -> Tensor:
    span = high - low
    if span == 0:
        return torch.zeros_like(place)
    away = (place - low).abs()
    flips, rest = torch.floor(away / span), torch.fmod(away, span)
    return torch.where(torch.fmod(flips, 2) == 0, rest + low, span - rest + low)


def _picked(x: Tensor, places: list[Tensor]) -> Any:
    """Return the elements at whole ``places`` [N, ...], zero outside: [N, C, ...]."""
    extents, shape = x.shape[2:], places[0].shape
    inside = torch.ones(shape, dtype=torch.bool)
    flat = torch.zeros(shape, dtype=torch.int64)
    for place, extent in zip(places, extents, strict=True):
        inside = inside & (place >= 0) & (place <= extent - 1)
        flat = flat * extent + place.clamp(0, extent - 1).to(torch.int64)
    rows = flat.reshape(shape[0], 1, -1).expand(-1, x.shape[1], -1)
    picked = x.flatten(2).gather(2, rows).reshape(shape[0], x.shape[1], *shape[1:])
    return torch.where(inside.unsqueeze(1), picked, 0)
