"""Resize and Upsample: along each axis, where an element comes from and with what weight."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.nn import functional as F

from tvm_sparse.frontends.onnx.converters.interpolation import Axis, Taps, taps
from tvm_sparse.frontends.onnx.node import Node
from tvm_sparse.frontends.onnx.registry import converter


@converter("Upsample", since=9, static=["scales"])
def _upsample(x: Tensor, scales: np.ndarray, *, mode: str = "nearest", node: Node) -> Tensor:
    return _upsample_attribute(x, scales=scales.tolist(), mode=mode, node=node)


@converter("Upsample", since=7)
def _upsample_attribute(
    x: Tensor, *, scales: Sequence[float], mode: str = "nearest", node: Node
) -> Tensor:
    return _resize(
        x,
        None,
        np.array(scales),
        mode=mode,
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
        node=node,
    )


@converter("Resize", since=10, static=["scales"])
def _resize_old(x: Tensor, scales: np.ndarray, *, mode: str = "nearest", node: Node) -> Tensor:
    return _upsample(x, scales, mode=mode, node=node)


@converter("Resize", since=11, static=["roi", "scales", "sizes"])
def _resize(
    x: Tensor,
    roi: np.ndarray | None = None,
    scales: np.ndarray | None = None,
    sizes: np.ndarray | None = None,
    *,
    mode: str = "nearest",
    coordinate_transformation_mode: str = "half_pixel",
    nearest_mode: str = "round_prefer_floor",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    antialias: int = 0,
    axes: Sequence[int] | None = None,
    keep_aspect_ratio_policy: str = "stretch",
    node: Node,
) -> Tensor:
    places = list(range(x.dim())) if axes is None else [a % x.dim() for a in axes]
    axes_resized = _axes(node, x, places, (roi, scales, sizes), keep_aspect_ratio_policy)
    found = []
    for axis in axes_resized:
        options = (coordinate_transformation_mode, nearest_mode, cubic_coeff_a)
        found.append(
            taps(
                node,
                axis,
                mode,
                options,
                antialias=bool(antialias),
                exclude_outside=bool(exclude_outside),
            )
        )
    factor = _repeated(x, axes_resized, found)
    if factor is not None:
        return F.interpolate(x, scale_factor=factor, mode="nearest")
    inside: Any = None
    for axis, rows in zip(axes_resized, found, strict=True):
        x = _applied(x, axis.place, rows)
        if rows.inside is not None:
            shape = [-1 if i == axis.place else 1 for i in range(x.dim())]
            mask = _tensor(rows.inside).reshape(shape)
            inside = mask if inside is None else inside & mask
    if inside is None:
        return x
    return torch.where(inside, x, torch.full((), extrapolation_value, dtype=x.dtype))


def _tensor(value: Any) -> Tensor:
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value


def _axes(
    node: Node,
    x: Tensor,
    places: list[int],
    inputs: tuple[np.ndarray | None, ...],
    policy: str,
) -> list[Axis]:
    """Return the axes whose elements move."""
    roi, scales, sizes = inputs
    extents = [x.shape[place] for place in places]
    factors: list[float | None]
    if scales is not None and scales.size:
        wanted = [_scaled(n, float(s)) for n, s in zip(extents, scales, strict=True)]
        factors = [float(s) for s in scales]
    elif sizes is not None and sizes.size:
        wanted = sizes.tolist()
        factors = [_factor(n, m) for n, m in zip(extents, wanted, strict=True)]
        if policy != "stretch":
            known = [f for f in factors if f is not None]
            if len(known) < len(factors):
                raise node.refuse(f"'{policy}' with sizes of open extents", "scales, or 'stretch'")
            one = min(known) if policy == "not_larger" else max(known)
            factors = [one] * len(places)
            wanted = [math.floor(one * n + 0.5) for n in extents]
    else:
        raise node.unsound("has neither scales nor sizes", "one of them")
    found = []
    for i, (place, extent, size, factor) in enumerate(
        zip(places, extents, wanted, factors, strict=True)
    ):
        crop = (0.0, 1.0)
        if roi is not None and roi.size:
            crop = (float(roi[i]), float(roi[i + len(places)]))
        if factor != 1 or crop != (0.0, 1.0):
            found.append(Axis(place, extent, size, factor, *crop))
    return found


def _factor(extent: Any, size: Any) -> float | None:
    """Return ``size / extent``; None where that depends on the size of an open extent."""
    if isinstance(extent, int) and isinstance(size, int):
        return size / extent
    return 1.0 if statically_known_true(size == extent) else None


def _scaled(extent: Any, scale: float) -> Any:
    """Return ``floor(extent * scale)``, of an open extent by a quotient of integers."""
    if isinstance(extent, int):
        return extent if scale == 1 else math.floor(extent * scale)
    ratio = Fraction(scale).limit_denominator(1 << 20)
    return extent * ratio.numerator // ratio.denominator


def _repeated(x: Tensor, axes: list[Axis], found: list[Taps]) -> list[float] | None:
    """Return the whole factor of each plane axis if every element is only repeated."""
    if x.dim() != 4 or not x.is_floating_point() or {a.place for a in axes} - {2, 3} or not axes:
        return None
    if not all(isinstance(n, int) for n in (*x.shape[2:], *(axis.size for axis in axes))):
        return None
    factors = {2: 1, 3: 1}
    for axis, rows in zip(axes, found, strict=True):
        factor = axis.size // axis.extent
        repeated = np.arange(axis.extent).repeat(max(factor, 1))
        if len(rows.indices) != 1 or not np.array_equal(rows.indices[0], repeated):
            return None
        if rows.inside is not None:
            return None
        factors[axis.place] = factor
    return [float(factors[2]), float(factors[3])]


def _applied(x: Tensor, place: int, rows: Taps) -> Tensor:
    """Return the weighted sum of the elements that ``rows`` names along the axis ``place``."""
    if len(rows.indices) == 1:
        return x.index_select(place, _tensor(rows.indices[0]))
    shape = [-1 if i == place else 1 for i in range(x.dim())]
    wide = x if x.is_floating_point() else x.to(torch.float32)
    total: Any = None
    for index, weight in zip(rows.indices, rows.weights, strict=True):
        share = _tensor(weight).to(wide.dtype).reshape(shape)
        term = wide.index_select(place, _tensor(index)) * share
        total = term if total is None else total + term
    return total if x.is_floating_point() else torch.round(total).to(x.dtype)
