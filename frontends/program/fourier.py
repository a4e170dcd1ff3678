"""Fourier transforms as products with matrices of cosines and sines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.frontends.converters.corrected import layer_of, shown_value
from tvm_sparse.frontends.program.complex_parts import Pair, Writer

aten = torch.ops.aten

MOST = 1024
"""Elements of an axis that is transformed by one product: the matrix has the square of it."""

LONGEST = 1 << 16
"""Elements of an axis that is transformed in parts."""

WHOLE = 64
"""Elements of an axis up to which its transform is one product."""


def _turn(w: Writer, pair: Pair, axis: int, sign: int) -> Pair:
    """Return the transform of all of an axis, without a factor."""
    extent = _extent(w, pair[0], axis, in_parts=True)
    if rows := _rows(pair[0], extent):
        return _in_two(w, pair, axis, sign, rows)
    cos, sin = _waves(w, extent, extent)
    a, c = (_along(w, part, cos, axis) for part in pair)
    b, d = (_along(w, part, sin, axis) for part in pair)
    first, second = (aten.add, aten.sub) if sign < 0 else (aten.sub, aten.add)
    return w.emit(first.Tensor, a, d), w.emit(second.Tensor, c, b)


def _rows(x: fx.Node, extent: int) -> int:
    """Return as how many rows and columns an axis is transformed in two parts; 0: in one."""
    short = next(n for n in range(math.isqrt(extent), 0, -1) if extent % n == 0)
    fixed = all(isinstance(e, int) for e in x.meta["val"].shape)
    return extent // short if extent > WHOLE and short > 1 and fixed else 0


def _in_two(w: Writer, pair: Pair, axis: int, sign: int, rows: int) -> Pair:
    """Transform an axis as ``rows`` and columns (Cooley and Tukey 1965, equations 2 to 4)."""
    shape = list(pair[0].meta["val"].shape)
    count, extent = shape[axis] // rows, shape[axis]
    apart = [*shape[:axis], rows, count, *shape[axis + 1 :]]
    turned = _turn(w, w.each(aten.reshape.default, pair, apart), axis, sign)
    ends = [rows, count, *[1] * (len(shape) - axis - 1)]
    waves = w.each(aten.reshape.default, _waves(w, rows, count, extent), ends)
    order = list(range(len(apart)))
    order[axis], order[axis + 1] = axis + 1, axis
    turned = _turn(w, w.product(turned, waves, sign), axis + 1, sign)
    swapped = w.each(aten.permute.default, turned, order)
    return w.each(aten.reshape.default, swapped, shape)


def _along(w: Writer, x: fx.Node, matrix: fx.Node, axis: int) -> fx.Node:
    """Return the product of an axis of ``x`` and ``matrix``."""
    rank = x.meta["val"].dim()
    order = list(range(rank))
    order[axis], order[-1] = order[-1], order[axis]
    last = w.emit(aten.permute.default, x, order)
    product = w.emit(aten.matmul.default, last, matrix)
    return w.emit(aten.permute.default, product, order)


def _waves(
    w: Writer, rows: int, columns: int, period: int | None = None, *, mirrored: bool = False
) -> Pair:
    """Return ``cos(2 pi r c / period)`` and the sines, of float64 rounded.

    Where they are ``mirrored``, each row but the first, and the middle of an even period, counts
    twice: it stands for its mirror image, too.
    """
    period = period or rows
    r = torch.arange(rows)[:, None]
    angle = (r * torch.arange(columns) % period).double() * (2 * math.pi / period)
    counts = 1 + (2 * r % period != 0).double() if mirrored else 1
    kind = f"{rows}x{columns}_of_{period}{'_mirrored' if mirrored else ''}"
    cos, sin = (
        w.weight(f"{name}_{kind}", (_exact(wave(angle)) * counts).float())
        for name, wave in (("cosines", torch.cos), ("sines", torch.sin))
    )
    return cos, sin


def _exact(wave: torch.Tensor) -> torch.Tensor:
    """Return ``wave`` with zeros where it is one but for the rounding of its angle."""
    return torch.where(wave.abs() < 1e-9, 0.0, wave)


def _extent(w: Writer, x: fx.Node, axis: int, *, in_parts: bool = False) -> int:
    """Return the extent of an axis; one ``in_parts`` may be longer if it has small factors."""
    shape = x.meta["val"].shape
    extent = shape[axis]
    if not isinstance(extent, int):
        raise UnsupportedError(
            layer_of(w.node),
            f"transforms an axis of {extent}, which is open: axis {axis} of {shown_value(x)}",
            "one size of an axis that is transformed",
            "leave it out of dynamic_shapes, or fix it by --shape",
        )
    fixed = all(isinstance(e, int) for e in shape)
    whole = _largest_factor(extent) if in_parts and fixed and extent <= LONGEST else extent
    if whole <= MOST:
        return extent
    raise UnsupportedError(
        layer_of(w.node),
        f"transforms an axis of {extent}",
        f"at most {MOST}, fixed; {LONGEST} with small factors where all extents are fixed",
    )


def _largest_factor(extent: int) -> int:
    """Return the largest prime factor, 1 of 1 and 0."""
    largest, factor = 1, 2
    while extent > 1:
        if extent % factor == 0:
            extent, largest = extent // factor, factor
        else:
            factor += 1
    return largest


def _factor(shape: Sequence[int], axes: Sequence[int], norm: int) -> float:
    count = math.prod(shape[axis] for axis in axes)
    return (1.0, count**-0.5, 1.0 / count)[norm]


def c2c(w: Writer, x: Any, axes: Sequence[int], norm: int, forward: bool) -> Any:
    """Write ``_fft_c2c``."""
    pair = w.of(x)
    for axis in axes:
        pair = _turn(w, pair, axis, -1 if forward else 1)
    return w.scaled(pair, _factor(x.meta["val"].shape, axes, norm))


def r2c(w: Writer, x: fx.Node, axes: Sequence[int], norm: int, onesided: bool) -> Any:
    """Write ``_fft_r2c``."""
    *others, last = axes
    extent = _extent(w, x, last, in_parts=True)
    half = extent // 2 + 1 if onesided else extent
    if _rows(x, extent):
        whole = _turn(w, w.of(x), last, -1)
        pair = w.each(aten.slice.Tensor, whole, last, 0, half)
    else:
        cos, sin = _waves(w, extent, half)
        # Of a sum that is zero, the sign stays plus: it decides the angle.
        pair = _along(w, x, cos, last), _along(w, x, w.emit(aten.neg.default, sin), last)
    for axis in others:
        pair = _turn(w, pair, axis, -1)
    return w.scaled(pair, _factor(x.meta["val"].shape, axes, norm))


def c2r(w: Writer, x: fx.Node, axes: Sequence[int], norm: int, extent: int) -> Any:
    """Write ``_fft_c2r``."""
    *others, last = axes
    pair, shape = w.of(x), w.node.meta["val"].shape
    for axis in others:
        pair = _turn(w, pair, axis, 1)
    _extent(w, w.node, last)
    half = _extent(w, x, last)
    cos, sin = _waves(w, half, extent, extent, mirrored=True)
    parts = _along(w, pair[0], cos, last), _along(w, pair[1], sin, last)
    return w.scaled([w.emit(aten.sub.Tensor, *parts)], _factor(shape, axes, norm))[0]
