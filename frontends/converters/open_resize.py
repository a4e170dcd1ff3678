"""Resizing of an axis whose extent is open, by a whole factor: as PyTorch finds its places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import te, tirx
from tvm.sym import Analyzer

LARGEST = 64
"""Whole factors up to this are recognised where an extent is given instead of a factor."""

Reads = Callable[[Any], Any]
"""The elements of a line at an index."""


def whole_factor(extent: Any, wanted: Any, factor: float | None) -> int | None:
    """Return by how many times an axis of open ``extent`` grows, ``None`` if not a whole number."""
    if factor is not None:
        return int(factor) if factor >= 1 and float(factor).is_integer() else None
    return next((k for k in range(1, LARGEST) if _is_zero(wanted - extent * k)), None)


def _is_zero(difference: Any) -> bool:
    found = Analyzer().simplify(tirx.convert(difference))
    return getattr(found, "value", None) == 0


def resized(x: te.Tensor, axis: int, factor: int, mode: str) -> te.Tensor:
    """Return ``x`` with an axis that is ``factor`` times as long.

    ``mode`` is ``nearest``, ``nearest-exact`` or ``linear``. Places are computed in float32, or
    float64 for linear ones of float64, with PyTorch's own steps.
    """
    extent = x.shape[axis]
    shape = [*x.shape[:axis], extent * factor, *x.shape[axis + 1 :]]

    def value(*indices: Any) -> Any:
        def read(place: Any) -> Any:
            return x[(*indices[:axis], place, *indices[axis + 1 :])]

        if mode == "linear":
            return _linear(read, indices[axis], extent, factor, str(x.dtype))
        return read(_nearest(indices[axis], extent, factor, half=mode == "nearest-exact"))

    return te.compute(shape, value, "resized")


def _nearest(index: Any, extent: Any, factor: int, *, half: bool) -> Any:
    if factor & (factor - 1) == 0:  # whose float is exact
        return tirx.floordiv(index, factor)
    place = _float(index, "float32") + tirx.const(0.5 if half else 0.0, "float32")
    place = tirx.floor(place * tirx.const(1 / factor, "float32"))
    return tirx.min(place.astype("int64"), extent - 1)


def _linear(read: Reads, index: Any, extent: Any, factor: int, dtype: str) -> Any:
    inside = "float64" if dtype == "float64" else "float32"
    half = tirx.const(0.5, inside)
    place = (_float(index, inside) + half) * tirx.const(1 / factor, inside) - half
    place = tirx.max(place, tirx.const(0.0, inside))
    first = tirx.min(tirx.floor(place).astype("int64"), extent - 1)
    share = place - _float(first, inside)
    second = tirx.min(first + 1, extent - 1)
    one = tirx.const(1.0, inside)
    found = (one - share) * read(first).astype(inside) + share * read(second).astype(inside)
    return found.astype(dtype)


def _float(index: Any, dtype: str) -> Any:
    return tirx.Cast(dtype, index)
