"""Average pooling: of windows that overlap, rows in vectors, then columns; of equal shares."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tvm import te, tirx

from tvm_sparse.ops.tensors.windows import Axis, Shares


def avg_pool(x: te.Tensor, axes: Sequence[Axis], *, counts_borders: bool) -> te.Tensor:
    """Return the mean of each window over ``axes``, the last of which is that of ``x``.

    Borders are zeros. They are elements of a window if ``counts_borders``; no window reaches
    beyond them.
    """
    *rows, columns = axes
    sums = _summed(x, [axis for axis in rows if axis.size > 1 or axis.stride > 1], "avg_pool_rows")
    sums = _summed(sums, [columns], "avg_pool_columns")

    def mean(*index: Any) -> Any:
        if counts_borders:
            elements: Any = tirx.const(math.prod(axis.size for axis in axes), "int64")
        else:
            elements = math.prod(axis.inside(index[axis.axis]) for axis in axes)
        return sums(*index) / tirx.Cast(str(x.dtype), elements)

    return te.compute(sums.shape, mean, name="avg_pool")


def share_means(x: te.Tensor, shares: Mapping[int, Shares]) -> te.Tensor:
    """Return the mean of each window of ``shares``, by the axis that they are windows of."""
    taps = {axis: te.reduce_axis((0, share.size), f"k{axis}") for axis, share in shares.items()}
    shape = [shares[i].count if i in shares else extent for i, extent in enumerate(x.shape)]

    def summed(*index: Any) -> Any:
        source, inside = list(index), []
        for axis, share in shares.items():
            place = share.first(index[axis]) + taps[axis].var
            source[axis] = tirx.min(place, share.extent - 1)
            inside += [place < share.end(index[axis])] if share.extent % share.count else []
        value = x(*source)
        if inside:
            value = tirx.if_then_else(tirx.all(*inside), value, tirx.const(0, str(x.dtype)))
        return te.sum(value, axis=list(taps.values()))

    def mean(*index: Any) -> Any:
        elements = math.prod(share.inside(index[axis]) for axis, share in shares.items())
        return sums(*index) / tirx.Cast(str(x.dtype), elements)

    sums = te.compute(shape, summed, name="share_sums")
    return te.compute(shape, mean, name="share_means")


def _summed(x: te.Tensor, axes: Sequence[Axis], name: str) -> te.Tensor:
    """Return the sums of the elements of each window over ``axes``."""
    if not axes:
        return x
    taps = [te.reduce_axis((0, axis.size), f"k{axis.axis}") for axis in axes]
    counts = {axis.axis: axis.count for axis in axes}

    def at(*index: Any) -> Any:
        source, inside = list(index), []
        for axis, tap in zip(axes, taps, strict=True):
            window = index[axis.axis]
            source[axis.axis] = axis.nearest(window, tap.var)
            place = window * axis.stride + tap.var - axis.border
            inside += [place >= 0] if axis.border else []
            inside += [place < axis.extent] if axis.reaches_beyond() else []
        value = x(*source)
        if inside:
            # No Select: TVM drops the bounds of a place that it has a condition for, and reads it.
            value = tirx.if_then_else(tirx.all(*inside), value, tirx.const(0, str(x.dtype)))
        return te.sum(value, axis=taps)

    return te.compute([counts.get(i, extent) for i, extent in enumerate(x.shape)], at, name=name)
