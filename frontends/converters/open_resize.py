"""Resizing of an axis whose extent is open, or becomes so: as PyTorch finds its places."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tvm import te, tirx
from tvm.sym import Analyzer

LARGEST = 64
"""Factors are recognised that are whole, or fractions of whole numbers up to this."""

_SHARPNESS = -0.75
"""The parameter of PyTorch's cubics."""

Reads = Callable[[Any], Any]
"""The elements of a line at an index."""


@dataclass(frozen=True)
class Resizing:
    """How an axis is resized.

    ``mode`` is ``nearest``, ``nearest-exact``, ``linear`` or ``cubic``; ``corners`` says whether
    the first and the last elements stay what they are, ``factor`` what was given for an extent.
    """

    axis: int
    mode: str
    corners: bool
    factor: float | None

    @property
    def share(self) -> Fraction | None:
        """``factor`` if it is a fraction of numbers that are small enough to count exactly."""
        found = Fraction(self.factor) if self.factor and self.factor > 0 else None
        return found if found is not None and found.denominator <= LARGEST else None


def grown(extent: Any, share: Fraction) -> Any:
    """Return what becomes of an extent, as PyTorch rounds it."""
    return Analyzer().simplify(tirx.floordiv(extent * share.numerator, share.denominator))


def resized(x: te.Tensor, wanted: Any, how: Resizing) -> te.Tensor:
    """Return ``x`` whose axis has the ``wanted`` extent.

    Places are computed in float32, or float64 for weighted ones of float64, with PyTorch's own
    steps.
    """
    axis, dtype = how.axis, str(x.dtype)
    extent = x.shape[axis]
    inside = "float64" if dtype == "float64" and "nearest" not in how.mode else "float32"
    by = whole(extent, wanted) if how.mode == "nearest" and how.factor is None else how.share
    shift = by is not None and by.denominator == 1 and by.numerator & (by.numerator - 1) == 0

    def value(*indices: Any) -> Any:
        def read(place: Any) -> Any:
            return x[(*indices[:axis], place, *indices[axis + 1 :])]

        index = indices[axis]
        if "nearest" in how.mode and shift and by is not None:
            return read(tirx.floordiv(index, by.numerator))  # a float of such a factor is exact
        place = _place(index, extent, wanted, how, inside)
        if "nearest" in how.mode:
            return read(tirx.min(place.astype("int64"), extent - 1))
        share = _linear if how.mode == "linear" else _cubic
        return share(lambda at: read(at).astype(inside), place, extent, inside).astype(dtype)

    return te.compute([*x.shape[:axis], wanted, *x.shape[axis + 1 :]], value, "resized")


def whole(extent: Any, wanted: Any) -> Fraction | None:
    """Return by how many times an axis grows, ``None`` if not known to be a whole number."""
    simplify = Analyzer().simplify

    def is_zero(difference: Any) -> bool:
        return getattr(simplify(tirx.convert(difference)), "value", None) == 0

    return next((Fraction(k) for k in range(1, LARGEST) if is_zero(wanted - extent * k)), None)


def _place(index: Any, extent: Any, wanted: Any, how: Resizing, inside: str) -> Any:
    """Return where on the line an element of the result lies."""
    half, at = tirx.const(0.5, inside), _float(index, inside)
    if how.corners:
        # Of floats: TVM does not bind a float of a difference.
        one = tirx.const(1.0, inside)
        steps = tirx.max(_float(wanted, inside) - one, one)
        return at * ((_float(extent, inside) - one) / steps)
    if how.factor is None:
        scale = _float(extent, inside) / _float(wanted, inside)
    else:
        scale = tirx.const(1 / how.factor, inside)
    if how.mode == "nearest":
        return tirx.floor(at * scale)
    if how.mode == "nearest-exact":
        return tirx.floor((at + half) * scale)
    place = (at + half) * scale - half
    return tirx.max(place, tirx.const(0.0, inside)) if how.mode == "linear" else place


def _linear(read: Reads, place: Any, extent: Any, inside: str) -> Any:
    first = tirx.min(tirx.floor(place).astype("int64"), extent - 1)
    share = place - _float(first, inside)
    second = tirx.min(first + 1, extent - 1)
    return (tirx.const(1.0, inside) - share) * read(first) + share * read(second)


def _cubic(read: Reads, place: Any, extent: Any, inside: str) -> Any:
    """Return the sum of four neighbours, those beyond an end being the last there."""
    first = tirx.min(tirx.floor(place).astype("int64"), extent - 1)
    share, a = place - _float(first, inside), _SHARPNESS
    one, zero = (tirx.const(number, inside) for number in (1.0, 0.0))
    share = tirx.min(tirx.max(share, zero), one)

    def const(number: float) -> Any:
        return tirx.const(number, inside)

    def near(d: Any) -> Any:
        return (const(a + 2) * d - const(a + 3)) * d * d + one

    def far(d: Any) -> Any:
        return ((const(a) * d - const(5 * a)) * d + const(8 * a)) * d - const(4 * a)

    weights = (far(share + one), near(share), near(one - share), far(one - share + one))
    total: Any = None
    for step, weight in enumerate(weights, -1):
        at = tirx.min(tirx.max(first + step, tirx.const(0, "int64")), extent - 1)
        total = weight * read(at) if total is None else total + weight * read(at)
    return total


def _float(number: Any, dtype: str) -> Any:
    return tirx.Cast(dtype, number)
