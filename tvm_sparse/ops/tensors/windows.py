"""Windows of a pooling along one axis."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.sym import Analyzer

from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.tensors.axis import power_of_two

MOST_LOADS = 4
"""Vectors of columns that neighbouring results may come from."""

MOST_CHUNKS = 64
"""Vectors of results of a row that are written out one after the other."""


@dataclass(frozen=True)
class Axis:
    """The windows along the axis ``axis`` of ``extent`` elements, one for each of ``count``."""

    axis: int
    extent: Any
    count: Any
    size: int
    stride: int
    dilation: int
    border: int

    def touched(self) -> Any:
        """Return the end of the last window, counted from the border's first element."""
        return (self.count - 1) * self.stride + (self.size - 1) * self.dilation + 1

    def is_near(self) -> bool:
        """Whether each window has neighbours, and at least one of them is an element."""
        if not all(isinstance(n, int | tirx.IntImm) for n in (self.extent, self.count)):
            return False
        last = (int(self.count) - 1) * self.stride - self.border
        return self.dilation == 1 and self.border < self.size and last < int(self.extent)

    def nearest(self, window: Any, tap: Any) -> Any:
        """Return a place in the window of near elements; beyond the ends it is the last one."""
        place = window * self.stride + tap - self.border
        if self.border:
            place = tirx.max(place, 0)
        if self.reaches_beyond():
            place = tirx.min(place, self.extent - 1)
        return place

    def reaches_beyond(self) -> bool:
        """Whether the last window has places behind the last element."""
        return int(self.touched()) - self.border > int(self.extent)

    def most_beyond(self) -> int:
        """Return how many places behind the last element windows have; at most, of open extents."""
        beyond = Analyzer().simplify(self.touched() - self.border - self.extent)
        if isinstance(beyond, tirx.IntImm):
            return max(0, int(beyond))
        return (self.size - 1) * self.dilation  # the last window begins before the last element

    def first(self, window: Any) -> Any:
        """Return the first element of a window of neighbours."""
        return tirx.max(window * self.stride - self.border, 0)

    def end(self, window: Any) -> Any:
        """Return the end of its elements."""
        return tirx.min(window * self.stride - self.border + self.size, self.extent)

    def inside(self, window: Any) -> Any:
        """Return how many places of a window, which are neighbours, are elements."""
        return self.end(window) - self.first(window)

    def places(self, window: int) -> list[int]:
        """Return the places of a window of near ones; those of the borders are no elements."""
        first = window * self.stride - self.border
        return list(range(first, first + self.size))


@dataclass(frozen=True)
class Shares:
    """The windows that cover ``extent`` elements, ``count`` of them, as adaptive pooling has them.

    Window ``o`` has the elements from ``floor(o * extent / count)`` to ``ceil((o + 1) * extent /
    count)``.
    """

    extent: int
    count: int

    @property
    def size(self) -> int:
        """Elements of the largest window."""
        return max(len(self.places(window)) for window in range(self.count))

    def is_near(self) -> bool:
        """Whether each window has neighbours, and at least one of them is an element."""
        return True

    def first(self, window: Any) -> Any:
        """Return the first element of a window."""
        return tirx.floordiv(window * self.extent, self.count)

    def end(self, window: Any) -> Any:
        """Return the end of its elements."""
        return tirx.floordiv((window + 1) * self.extent + (self.count - 1), self.count)

    def inside(self, window: Any) -> Any:
        """Return how many elements a window has."""
        return self.end(window) - self.first(window)

    def places(self, window: int) -> list[int]:
        """Return the places of a window."""
        end = -(-(window + 1) * self.extent // self.count)
        return list(range(window * self.extent // self.count, end))


@dataclass(frozen=True)
class Chunk:
    """Neighbouring results of a row, and the vectors of columns that they come from.

    Results at known places have one tap.

    Parameters
    ----------
    start
        The first result.
    loads
        Where the vectors of columns begin.
    taps
        For each tap and result, which lane of these vectors it is; one past them is the border.
    """

    start: int
    loads: tuple[int, ...]
    taps: tuple[tuple[int, ...], ...]


def width_of(extent: int) -> int:
    """Return the lanes of a vector of columns."""
    return power_of_two(min(LANES, extent))


def chunks_of(columns: Axis | Shares, *, shorter: bool = False) -> list[Chunk] | None:
    """Return how to find the results of a row, ``None`` if shuffles cannot.

    The last chunk ends with the row: it may overlap the one before. Results that lie far apart
    have chunks of fewer than a vector if ``shorter``.
    """
    extent, count = int(columns.extent), int(columns.count)
    size, width = min(LANES, count), width_of(extent)
    if width < 2 or not columns.is_near():
        return None
    while 1 < size and count <= MOST_CHUNKS * size:
        starts = [min(first, count - size) for first in range(0, count, size)]
        chunks = [_chunk(columns, start, size, width) for start in starts]
        if max(len(chunk.loads) for chunk in chunks) <= MOST_LOADS:
            return chunks
        size = power_of_two(size - 1) if shorter else 0
    return None


def _chunk(columns: Axis | Shares, start: int, size: int, width: int) -> Chunk:
    extent, beyond = int(columns.extent), -1
    windows = [columns.places(start + i) for i in range(size)]
    taps = list(itertools.zip_longest(*windows, fillvalue=beyond))
    inside = [place for row in taps for place in row if 0 <= place < extent]
    firsts = range(min(inside), max(inside) + 1, width)
    loads = tuple(dict.fromkeys(min(first, extent - width) for first in firsts))

    def lane(place: int) -> int:
        for number, load in enumerate(loads):
            if 0 <= place - load < width:
                return number * width + place - load
        return len(loads) * width

    return Chunk(start, loads, tuple(tuple(map(lane, row)) for row in taps))
