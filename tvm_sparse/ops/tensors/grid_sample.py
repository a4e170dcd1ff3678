"""Samples of planes and volumes at places that a grid gives.

Two functions: :func:`tables` says for each sample which elements it reads and with which shares,
:func:`sampled` reads them, for all channels by the same tables.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx

from tvm_sparse.ops.emit import unravel

MODES = ("linear", "nearest", "cubic")
PADDINGS = ("zeros", "border", "reflection")

_TAPS = {"linear": 2, "nearest": 1, "cubic": 4}
_CUBIC = -0.75
"""The parameter of cubic convolution that PyTorch and ONNX share."""


@dataclass(frozen=True)
class Sampling:
    """How samples are taken.

    Parameters
    ----------
    mode
        One of :data:`MODES`.
    padding
        What lies outside: one of :data:`PADDINGS`.
    corners
        Whether -1 and 1 are the middles of the first and last element, or else their outer edges.
    extents
        Of the plane or volume.
    """

    mode: str
    padding: str
    corners: bool
    extents: tuple[Any, ...]

    @property
    def taps(self) -> tuple[int, ...]:
        """Elements that a sample reads along each axis."""
        return (_TAPS[self.mode],) * len(self.extents)

    def leaves(self) -> bool:
        """Whether taps may lie outside: a linear one, whose share is zero then, in any case."""
        return self.padding == "zeros" or self.mode == "linear"

    def place(self, position: Any, axis: int) -> Any:
        """Return where a position from -1 to 1 stands on an axis, before taps are chosen."""
        one, extent = tirx.const(1, position.ty.dtype), self._extent(position, axis)
        if self.corners:
            place = (position + one) / 2 * (extent - one)
        else:
            place = ((position + one) * extent - one) / 2
        if self.mode != "cubic":
            place = self._padded(place, axis)
        return tirx.nearbyint(place) if self.mode == "nearest" else place

    def element(self, place: Any, axis: int, tap: Any) -> tuple[Any, Any]:
        """Return the element of a tap around a place, and whether there is one."""
        before = {"linear": 0, "nearest": 0, "cubic": 1}[self.mode]
        at = tirx.floor(place) + tirx.Cast(place.ty.dtype, tap - before)
        if self.mode == "cubic":
            at = self._padded(at, axis)
        zero, last = tirx.const(0, at.ty.dtype), self._extent(at, axis) - 1
        there = tirx.all(at >= zero, at <= last)
        return tirx.Cast("int32", tirx.Select(there, at, zero)), there

    def share(self, place: Any, tap: Any) -> Any:
        """Return the share that an axis gives to a tap."""
        dtype = place.ty.dtype
        rest, one = place - tirx.floor(place), tirx.const(1, dtype)
        if self.mode == "linear":
            return tirx.Select(tap == 0, one - rest, rest)
        a = tirx.const(_CUBIC, dtype)
        far = tirx.any(tap == 0, tap == 3)
        away = tirx.abs(rest + one - tirx.Cast(dtype, tap))
        outer = ((a * away - 5 * a) * away + 8 * a) * away - 4 * a
        inner = ((a + 2) * away - (a + 3)) * away * away + one
        return tirx.Select(far, outer, inner)

    def _extent(self, like: Any, axis: int) -> Any:
        return tirx.Cast(like.ty.dtype, self.extents[axis])

    def _padded(self, place: Any, axis: int) -> Any:
        """Return the place inside that stands for one outside, if one does.

        That for NaN is the first element of a plane and the last of a volume, as in PyTorch.
        """
        if self.padding == "zeros":
            return place
        zero, last = tirx.const(0, place.ty.dtype), self._extent(place, axis) - 1
        if self.padding == "reflection":
            place = self._reflected(place, axis)
        if len(self.extents) == 3:
            return tirx.Select(place < last, tirx.max(place, zero), last)
        return tirx.Select(place > zero, tirx.min(place, last), zero)

    def _reflected(self, place: Any, axis: int) -> Any:
        """Mirror at the middles of the first and last element, or at their outer edges."""
        dtype = place.ty.dtype
        edge = tirx.const(0.0 if self.corners else 0.5, dtype)
        span = self._extent(place, axis) - 1 + 2 * edge
        away = tirx.abs(place + edge)
        turn = 2 * tirx.max(span, tirx.const(0.5, dtype))  # of one element there is no other
        rest = away - tirx.trunc(away / turn) * turn
        return tirx.min(rest, turn - rest) - edge


def tables(grid: te.Tensor, how: Sampling) -> list[te.Tensor]:
    """Return what samples read: (taps, n, ...) flat elements, whether they count, their shares.

    ``grid`` is (n, ..., axes), the last axis of the plane first. Nearest samples have no shares.
    """
    rank, taps = len(how.extents), how.taps
    half = str(grid.dtype) in ("float16", "bfloat16")
    dtype = "float32" if half else str(grid.dtype)  # halves cannot tell neighbouring pixels apart

    samples = list(grid.shape)[:-1]

    def along(axis: int) -> te.Tensor:
        def place(*index: Any) -> Any:
            return how.place(tirx.Cast(dtype, grid(*index, rank - 1 - axis)), axis)

        return te.compute(samples, place, name="place")

    places = [along(axis) for axis in range(rank)]

    def each(tap: Any, index: Sequence[Any]) -> list[tuple[Any, Any]]:
        return [(p(*index), t) for p, t in zip(places, unravel(tap, taps), strict=True)]

    def element(tap: Any, *index: Any) -> Any:
        flat = tirx.const(0, "int32")
        for axis, (place, t) in enumerate(each(tap, index)):
            flat = flat * tirx.Cast("int32", how.extents[axis]) + how.element(place, axis, t)[0]
        return flat

    def counts(tap: Any, *index: Any) -> Any:
        return tirx.all(*(how.element(p, a, t)[1] for a, (p, t) in enumerate(each(tap, index))))

    def share(tap: Any, *index: Any) -> Any:
        return math.prod(how.share(place, t) for place, t in each(tap, index))

    shape = [math.prod(taps), *samples]
    found = [te.compute(shape, element, name="element"), te.compute(shape, counts, name="counts")]
    return found if how.mode == "nearest" else [*found, te.compute(shape, share, name="share")]


def sampled(
    x: te.Tensor, elements: te.Tensor, counts: te.Tensor, shares: te.Tensor | None, how: Sampling
) -> te.Tensor:
    """Return the samples (n, channels, ...) of flat planes ``x`` (n, channels, elements).

    ``elements``, ``counts`` and ``shares`` are those of :func:`tables`.
    """
    dtype = str(x.dtype) if shares is None else str(shares.dtype)

    def sample(n: Any, channel: Any, *index: Any) -> Any:
        total: Any = None
        for tap in range(math.prod(how.taps)):
            value = tirx.Cast(dtype, x(n, channel, elements(tap, n, *index)))
            zero = tirx.const(0, dtype)
            keep = counts(tap, n, *index) if how.leaves() else tirx.const(True, "bool")
            # NaN as a share counts in planes, though the element does not: as in PyTorch.
            early = len(how.extents) != 3 or shares is None
            value = tirx.Select(keep, value, zero) if early else value
            value = value if shares is None else value * shares(tap, n, *index)
            value = value if early else tirx.Select(keep, value, zero)
            total = value if total is None else total + value
        return tirx.Cast(str(x.dtype), total)

    samples = list(elements.shape)[2:]
    return te.compute([*list(x.shape)[:2], *samples], sample, name="sample")
