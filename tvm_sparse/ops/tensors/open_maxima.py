"""Maxima of windows of open extents and where they stand: pooling that returns indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import te, tirx

from tvm_sparse.ops.marks import flat
from tvm_sparse.ops.tensors.window_maxima import Windows, replaces


def open_maxima(x: te.Tensor, axes: Sequence[Windows]) -> list[te.Tensor]:
    """Return the maximum of each window over the last axes of ``x``, and its flat position there.

    Extents, counts and taps may be open. Of equal elements the first counts, of NaN the last, as
    in :func:`~tvm_sparse.ops.tensors.window_maxima.window_maxima`.
    """
    lead = list(x.shape[: len(x.shape) - len(axes)])
    taps = [te.reduce_axis((0, axis.taps), f"tap{i}") for i, axis in enumerate(axes)]
    extents = [axis.extent for axis in axes]

    def elements(*index: Any) -> Any:
        windows = index[len(lead) :]
        pairs = [a.place(w, t.var) for a, w, t in zip(axes, windows, taps, strict=True)]
        inside = tirx.all(*(tirx.all(place >= 0, place < end) for place, end in pairs))
        places = [place for place, _ in pairs]
        value = x[(*index[: len(lead)], *places)]
        none = tirx.const(-1, "int64"), tirx.const(0, x.dtype)
        where = tirx.Cast("int64", flat(places, tuple(extents)))
        place, value = (
            tirx.if_then_else(inside, found, other)
            for found, other in zip((where, value), none, strict=True)
        )
        return _LARGEST((place, value), axis=taps)

    shape = [*lead, *(axis.count for axis in axes)]
    places, values = te.compute(shape, elements, name="open_maxima")
    return [values, places]


def _larger(one: Any, other: Any) -> tuple[Any, Any]:
    """Return the better of two places with their values; a negative place is none."""
    (place, value), (own, best) = other, one
    better = tirx.all(place >= 0, replaces(value, place, best, own))
    return tirx.Select(better, place, own), tirx.Select(better, value, best)


def _nothing(place: str, value: str) -> tuple[Any, Any]:
    return tirx.const(-1, place), tirx.const(0, value)


_LARGEST = te.comm_reducer(_larger, _nothing, name="largest")
