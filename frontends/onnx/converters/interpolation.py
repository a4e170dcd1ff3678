"""The elements that an interpolated one is made of, and their weights, worked out in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tvm_sparse.frontends.onnx.node import Node


@dataclass(frozen=True)
class Axis:
    """How one axis is resized.

    Parameters
    ----------
    place
        Which axis.
    extent, size
        Elements before and after.
    scale
        Factor that places are computed with.
    start, end
        Part of the axis that ``tf_crop_and_resize`` takes.
    """

    place: int
    extent: int
    size: int
    scale: float
    start: float = 0.0
    end: float = 1.0


@dataclass(frozen=True)
class Taps:
    """For each element of a resized axis, where it comes from.

    Parameters
    ----------
    indices, weights
        int64 and float64, (taps, size).
    inside
        Which elements lie inside the part that is taken, (size,).
    """

    indices: np.ndarray
    weights: np.ndarray
    inside: np.ndarray


def taps(
    node: Node,
    axis: Axis,
    mode: str,
    options: tuple[str, str, float],
    *,
    antialias: bool,
    exclude_outside: bool,
) -> Taps:
    """Return the taps of ``axis``; ``options`` are coordinates, rounding and cubic coefficient."""
    transformation, rounding, cubic = options
    places = _places(node, axis, transformation)
    inside = np.ones(axis.size, bool)
    if transformation == "tf_crop_and_resize":
        inside = (places >= 0) & (places <= axis.extent - 1)
    if mode == "nearest":
        if rounding not in _ROUNDINGS:
            raise node.unsound(f"nearest_mode '{rounding}'", ", ".join(_ROUNDINGS))
        index = _ROUNDINGS[rounding](places)[None]
        weights = np.ones(index.shape)
    elif mode in ("linear", "bilinear", "cubic"):
        reach = 2 if mode == "cubic" else 1
        shrink = min(axis.scale, 1.0) if antialias else 1.0
        kernel = _cubic_kernel(cubic) if mode == "cubic" else _triangle
        start = int(np.floor(-reach / shrink)) + 1
        index = np.floor(places)[None] + np.arange(start, 1 - start + 1)[:, None]
        weights = kernel((index - places) * shrink)
        if exclude_outside:
            weights = np.where((index >= 0) & (index < axis.extent), weights, 0)
        if antialias or exclude_outside:
            weights = weights / weights.sum(0)
    else:
        raise node.unsound(f"mode '{mode}'", "nearest, linear or cubic")
    clamped = np.clip(index, 0, axis.extent - 1).astype(np.int64)
    return Taps(clamped, weights, inside)


_ROUNDINGS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _triangle(x: np.ndarray) -> np.ndarray:
    return np.clip(1 - abs(x), 0, 1)


def _cubic_kernel(a: float) -> Callable[[np.ndarray], np.ndarray]:
    """Keys' cubic convolution with coefficient ``a``."""

    def kernel(x: np.ndarray) -> np.ndarray:
        x = abs(x)
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return np.where(x <= 1, near, np.where(x < 2, far, 0.0))

    return kernel


def _places(node: Node, axis: Axis, transformation: str) -> np.ndarray:
    """Return where the elements lie on the axis before resizing."""
    x, scale, extent = np.arange(axis.size, dtype=np.float64), axis.scale, axis.extent
    length = scale * extent
    half = (x + 0.5) / scale - 0.5
    if transformation == "half_pixel":
        return half
    if transformation == "pytorch_half_pixel":
        return half if length > 1 else np.zeros(axis.size)
    if transformation == "half_pixel_symmetric":
        return extent / 2 * (1 - axis.size / length) + half
    if transformation == "asymmetric":
        return x / scale
    if transformation == "align_corners":
        return x * (extent - 1) / (length - 1) if length != 1 else np.zeros(axis.size)
    if transformation == "tf_crop_and_resize":
        part = (axis.end - axis.start) * (extent - 1)
        step = x * part / (length - 1) if length != 1 else np.full(axis.size, part / 2)
        return axis.start * (extent - 1) + step
    raise node.unsound(f"coordinate_transformation_mode '{transformation}'", "one of ONNX's")
