"""Maxima of windows and where they stand: pooling that returns indices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.ops.axis import variable
from tvm_sparse.ops.emit import unravel


@dataclass(frozen=True)
class Windows:
    """The windows along one axis of ``extent`` elements, one for each of ``count`` outputs.

    Parameters
    ----------
    taps
        Elements of the largest window; those outside the axis or the window do not count.
    stride, before, dilation
        The first element of window ``o`` is ``o * stride - before``, the next ``dilation`` on.
    adaptive
        Instead, window ``o`` has the elements from ``floor(o * extent / count)`` to
        ``ceil((o + 1) * extent / count)``.
    """

    extent: int
    count: int
    taps: int
    stride: int = 1
    before: int = 0
    dilation: int = 1
    adaptive: bool = False

    @staticmethod
    def shares(extent: int, count: int) -> Windows:
        """Return ``count`` windows that cover the axis, as adaptive pooling has them."""
        taps = max(-(-(o + 1) * extent // count) - o * extent // count for o in range(count))
        return Windows(extent, count, taps, adaptive=True)

    def place(self, window: Any, tap: Any) -> tuple[Any, Any]:
        """Return the position of ``tap`` on the axis, and the end of what counts."""
        if not self.adaptive:
            return window * self.stride - self.before + tap * self.dilation, self.extent
        end = tirx.floordiv((window + 1) * self.extent + self.count - 1, self.count)
        return tirx.floordiv(window * self.extent, self.count) + tap, end


def window_maxima(x: te.Tensor, axes: Sequence[Windows]) -> list[te.Tensor]:
    """Return the maximum of each window over the last axes of ``x``, and its flat position there.

    Of equal elements the first counts, of NaN the last.
    """
    lead = list(x.shape[: len(x.shape) - len(axes)])
    shape = [*lead, *(axis.count for axis in axes)]
    counts, taps = math.prod(a.count for a in axes), math.prod(a.taps for a in axes)
    plane = math.prod(a.extent for a in axes)

    def emit(inputs: Any, outputs: Any) -> Any:
        source, values, places = (T.buffer_proxy(b) for b in (*inputs, *outputs))
        with IRBuilder() as builder, T.parallel(0, math.prod(lead) * counts) as o:
            place, best = variable("int64"), variable(str(x.dtype))
            place[0] = tirx.const(-1, "int64")
            windows = unravel(tirx.floormod(o, counts), tuple(a.count for a in axes))
            with T.serial(0, taps) as tap:
                here, value = variable("int64"), variable(str(x.dtype))
                steps = unravel(tap, tuple(a.taps for a in axes))
                where = [a.place(w, t) for a, w, t in zip(axes, windows, steps, strict=True)]
                inside = tirx.all(*(tirx.all(p >= 0, p < end) for p, end in where))
                here[0] = tirx.Cast("int64", _flat([p for p, _ in where], axes))
                with T.If(inside), T.Then():
                    value[0] = source[tirx.floordiv(o, counts) * plane + here[0]]
                    with T.If(_replaces(value[0], best[0], place[0])), T.Then():
                        best[0] = value[0]
                        place[0] = here[0]
            values[o] = best[0]
            places[o] = place[0]
        return builder.get()

    dtypes = [str(x.dtype), "int64"]
    return te.extern([shape, shape], [x], emit, name="window_maxima", dtype=dtypes)


def _replaces(value: Any, best: Any, place: Any) -> Any:
    """Whether ``value`` is the new best: the first one, a larger one, or no number."""
    larger = tirx.any(place < 0, value > best)
    return tirx.Select(tirx.LE(value, value), larger, tirx.const(True, "bool"))


def _flat(position: Sequence[Any], axes: Sequence[Windows]) -> Any:
    """Return the row-major index of a position."""
    index: Any = 0
    for p, axis in zip(position, axes, strict=True):
        index = index * axis.extent + p
    return index
