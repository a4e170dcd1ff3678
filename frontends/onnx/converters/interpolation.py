"""The elements that an interpolated one is made of, and their weights.

They are worked out in NumPy. Where an extent is open they are part of the program: the same
arithmetic is done with tensors, whose functions have the same names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tvm_sparse.frontends.onnx.node import Node


@dataclass(frozen=True)
class Axis:
    """How one axis is resized.

    Parameters
    ----------
    place
        Which axis.
    extent, size
        Elements before and after; symbols where they are open.
    scale
        Factor that places are computed with; None for ``size / extent``.
    start, end
        Part of the axis that ``tf_crop_and_resize`` takes.
    """

    place: int
    extent: Any
    size: Any
    scale: float | None
    start: float = 0.0
    end: float = 1.0

    @property
    def static(self) -> bool:
        """Whether both extents are known at import."""
        return isinstance(self.extent, int) and isinstance(self.size, int)

    @property
    def library(self) -> Any:
        """What computes the taps: NumPy, or torch for open extents."""
        return np if self.static else torch

    def numbers(self) -> tuple[Any, Any, Any]:
        """Return extent, size and scale as numbers of 64 bits."""
        if self.static:
            scale = self.size / self.extent if self.scale is None else self.scale
            return self.extent, self.size, scale
        extent, size = (
            torch.scalar_tensor(n, dtype=torch.float64) for n in (self.extent, self.size)
        )
        return extent, size, size / extent if self.scale is None else self.scale


@dataclass(frozen=True)
class Taps:
    """For each element of a resized axis, where it comes from.

    Parameters
    ----------
    indices, weights
        int64 and float64, (taps, size).
    inside
        Which elements lie inside the part that is taken, (size,); None for all.
    """

    indices: Any
    weights: Any
    inside: Any


def taps(
    node: Node,
    axis: Axis,
    mode: str,
    options: tuple[str, str, float],
    *,
    antialias: bool,
    exclude_outside: bool,
) -> Taps:
    """Return the taps of ``axis``; ``options`` are coordinates, rounding and cubic coefficient.

    They are arrays, or tensors for open extents.
    """
    transformation, rounding, cubic = options
    xp, (extent, _, scale) = axis.library, axis.numbers()
    places = _places(node, axis, transformation)
    inside = None
    if transformation == "tf_crop_and_resize":
        inside = (places >= 0) & (places <= extent - 1)
    if mode == "nearest":
        if rounding not in _ROUNDINGS:
            raise node.unsound(f"nearest_mode '{rounding}'", ", ".join(_ROUNDINGS))
        index = _ROUNDINGS[rounding](xp, places)[None]
        weights = xp.ones_like(index)
    elif mode in ("linear", "bilinear", "cubic"):
        reach = 2 if mode == "cubic" else 1
        if antialias and not isinstance(scale, float):
            raise node.refuse("antialias with sizes of open extents", "scales")
        shrink = min(scale, 1.0) if antialias else 1.0
        kernel = _cubic_kernel(cubic) if mode == "cubic" else _triangle
        start = int(np.floor(-reach / shrink)) + 1
        index = xp.floor(places)[None] + xp.arange(start, 1 - start + 1)[:, None]
        weights = kernel(xp, (index - places) * shrink)
        if exclude_outside:
            weights = xp.where((index >= 0) & (index < extent), weights, 0.0)
        if antialias or exclude_outside:
            weights = weights / weights.sum(0)
    else:
        raise node.unsound(f"mode '{mode}'", "nearest, linear or cubic")
    if axis.static:
        return Taps(np.clip(index, 0, extent - 1).astype(np.int64), weights, inside)
    last = torch.scalar_tensor(axis.extent - 1, dtype=torch.int64)
    clamped = torch.minimum(torch.clamp(index.to(torch.int64), min=0), last)
    return Taps(clamped, weights, inside)


_ROUNDINGS: dict[str, Callable[[Any, Any], Any]] = {
    "round_prefer_floor": lambda xp, x: xp.ceil(x - 0.5),
    "round_prefer_ceil": lambda xp, x: xp.floor(x + 0.5),
    "floor": lambda xp, x: xp.floor(x),
    "ceil": lambda xp, x: xp.ceil(x),
}


def _triangle(xp: Any, x: Any) -> Any:
    return xp.clip(1 - abs(x), 0, 1)


def _cubic_kernel(a: float) -> Callable[[Any, Any], Any]:
    """Keys' cubic convolution with coefficient ``a``."""

    def kernel(xp: Any, x: Any) -> Any:
        x = abs(x)
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return xp.where(x <= 1, near, xp.where(x < 2, far, 0.0))

    return kernel


def _places(node: Node, axis: Axis, transformation: str) -> Any:
    """Return where the elements lie on the axis before resizing."""
    xp, (extent, size, scale) = axis.library, axis.numbers()
    x = xp.arange(axis.size, dtype=xp.float64)
    length = scale * extent
    half = (x + 0.5) / scale - 0.5
    if transformation == "half_pixel":
        return half
    if transformation == "pytorch_half_pixel":
        return _where(length > 1, half, 0 * x)
    if transformation == "half_pixel_symmetric":
        return extent / 2 * (1 - size / length) + half
    if transformation == "asymmetric":
        return x / scale
    more = _where(length != 1, length - 1, 1)
    if transformation == "align_corners":
        return _where(length != 1, x * (extent - 1) / more, 0 * x)
    if transformation == "tf_crop_and_resize":
        part = (axis.end - axis.start) * (extent - 1)
        step = _where(length != 1, x * part / more, 0 * x + part / 2)
        return axis.start * (extent - 1) + step
    raise node.unsound(f"coordinate_transformation_mode '{transformation}'", "one of ONNX's")


def _where(condition: Any, a: Any, b: Any) -> Any:
    """Return ``a`` or ``b``: by a condition of numbers, or of a tensor."""
    if isinstance(condition, torch.Tensor):
        return torch.where(condition, a, b)
    return a if condition else b
