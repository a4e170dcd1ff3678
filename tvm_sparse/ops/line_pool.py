"""Adaptive pooling of lines: windows next to one another, each in whole vectors."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx

from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.extrema import MAX

LEAST = 3
"""Vectors of a window from which on they are worth adding up their lanes at the end."""


def fits(extent: int, count: int) -> bool:
    """Whether each of ``count`` windows of a line of ``extent`` elements fills some vectors."""
    return 0 < count and extent // count >= LEAST * LANES


def line_means(x: te.Tensor, count: int) -> te.Tensor:
    """Return the mean of each of ``count`` windows over the last axis of a float tensor.

    Window ``o`` has the elements from ``floor(o * extent / count)`` to ``ceil((o + 1) * extent /
    count)``. Its last vector ends with it; what the one before has already is left out.
    """
    line = _Line(x, count)

    def taken(place: Any, first: Any, value: Any) -> Any:
        return tirx.Select(place >= first, value, tirx.const(0, str(x.dtype)))

    sums = line.reduced(te.sum, taken, "line_sums")
    lane = te.reduce_axis((0, LANES), "lane")
    total = te.compute(
        sums.shape[:-1], lambda *i: te.sum(sums(*i, lane.var), axis=lane), name="line_totals"
    )

    def mean(*index: Any) -> Any:
        first, end = line.window(index[-1])
        return total(*index) / tirx.Cast(str(x.dtype), end - first)

    return te.compute(total.shape, mean, name="line_means")


def line_maxima(x: te.Tensor, count: int) -> te.Tensor:
    """Return the largest element of each of ``count`` windows over the last axis, NaN if one is.

    The windows are those of :func:`line_means`; elements may count twice.
    """
    best = MAX.reducer()
    found = _Line(x, count).reduced(best, lambda _place, _first, value: value, "line_best")
    lane = te.reduce_axis((0, LANES), "lane")
    return te.compute(
        found.shape[:-1], lambda *i: best(found(*i, lane.var), axis=lane), name="line_maxima"
    )


class _Line:
    """The windows over the last axis of ``x``."""

    def __init__(self, x: te.Tensor, count: int) -> None:
        self.x, self.count, self.extent = x, count, int(x.shape[-1])
        windows = [
            -(-(o + 1) * self.extent // count) - o * self.extent // count for o in range(count)
        ]
        self.vectors = -(-max(windows) // LANES)

    def window(self, number: Any) -> tuple[Any, Any]:
        """Return the first element of a window, and the end."""
        end = tirx.floordiv((number + 1) * self.extent + self.count - 1, self.count)
        return tirx.floordiv(number * self.extent, self.count), end

    def reduced(self, reduce: Any, taken: Any, name: str) -> te.Tensor:
        """Return a vector for each window: what its vectors make together, lane by lane."""
        vector = te.reduce_axis((0, self.vectors), "vector")

        def at(*index: Any) -> Any:
            *lead, number, lane = index
            first, end = self.window(number)
            start = first + vector.var * LANES
            place = tirx.min(start, end - LANES) + lane
            return reduce(taken(place, start, self.x(*lead, place)), axis=vector)

        return te.compute([*self.x.shape[:-1], self.count, LANES], at, name=name)
