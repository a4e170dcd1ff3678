"""Windows of a pooling along one axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx


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

    def first(self, window: Any) -> Any:
        """Return the first element of a window of neighbours."""
        return tirx.max(window * self.stride - self.border, 0)

    def end(self, window: Any) -> Any:
        """Return the end of its elements."""
        return tirx.min(window * self.stride - self.border + self.size, self.extent)

    def inside(self, window: Any) -> Any:
        """Return how many places of a window, which are neighbours, are elements."""
        return self.end(window) - self.first(window)
