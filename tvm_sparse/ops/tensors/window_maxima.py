"""Maxima of windows and where they stand: pooling that returns indices."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.emit import filled, lanes_from, unravel
from tvm_sparse.ops.tensors.axis import variable

ADAPTIVE = "tvm_sparse.adaptive_maxima"
"""The attribute of a function that returns the maxima of adaptive windows: over how many axes."""


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

    Extent, count and taps are numbers in :func:`window_maxima`.
    """

    extent: Any
    count: Any
    taps: Any
    stride: int = 1
    before: int = 0
    dilation: int = 1
    adaptive: bool = False

    @staticmethod
    def shares(extent: int, count: int) -> Windows:
        """Return ``count`` windows that cover the axis, as adaptive pooling has them."""
        taps = max(-(-(o + 1) * extent // count) - o * extent // count for o in range(count))
        return Windows(extent, count, taps, adaptive=True)

    @staticmethod
    def of(
        extent: Any, taps: int, stride: int, before: int, dilation: int, *, rounds_up: bool = False
    ) -> Windows:
        """Return as many windows as an open axis has, with a border of ``before`` at both ends.

        Their number ``rounds_up`` where the last one may pass the border; one that begins behind
        the axis is none.
        """
        covered = (taps - 1) * dilation + 1
        beyond = stride - 1 if rounds_up else 0
        count = tirx.floordiv(extent + (2 * before - covered + beyond), stride) + 1
        if rounds_up and covered < stride + before:
            count = tirx.min(count, tirx.floordiv(extent + (before - 1), stride) + 1)
        return Windows(extent, count, taps, stride, before, dilation)

    @staticmethod
    def open_shares(extent: Any, count: int) -> Windows:
        """Return ``count`` windows that cover an open axis, with room for the largest one."""
        taps = tirx.floordiv(extent + (count - 1), count) + 1
        return Windows(extent, count, taps, adaptive=True)

    def is_point(self) -> bool:
        """Whether there is one element, which is in the one window."""
        return self.extent == self.count == self.taps == 1 and not self.before

    def place(self, window: Any, tap: Any) -> tuple[Any, Any]:
        """Return the position of ``tap`` on the axis, and the end of what counts."""
        if not self.adaptive:
            return window * self.stride - self.before + tap * self.dilation, self.extent
        end = tirx.floordiv((window + 1) * self.extent + self.count - 1, self.count)
        return tirx.floordiv(window * self.extent, self.count) + tap, end


def window_maxima(
    x: te.Tensor, axes: Sequence[Windows], *, places: bool = True
) -> list[te.Tensor] | te.Tensor:
    """Return the maximum of each window over the last axes of ``x``, and its flat position there.

    Only the maximum unless ``places``. Of equal elements the first counts, of NaN the last. Rows
    are reduced first, all their columns side by side, then the columns of each window.
    """
    lead = list(x.shape[: len(x.shape) - len(axes)])
    shape = [*lead, *(axis.count for axis in axes)]
    outer, last = [axis for axis in axes[:-1] if not axis.is_point()], axes[-1]
    rows = tuple(axis.count for axis in outer)

    def emit(inputs: Any, outputs: Any) -> Any:
        values, *found = (T.buffer_proxy(b) for b in outputs)
        count, elements = math.prod(rows), math.prod(a.extent for a in axes)
        with IRBuilder() as builder, T.parallel(0, math.prod(lead) * count) as row:
            flat = T.decl_buffer([math.prod(lead) * elements], x.dtype, data=inputs[0].data)
            best = _Row(last.extent, elements, str(x.dtype))
            first = tirx.floordiv(row, count) * elements
            windows = unravel(tirx.floormod(row, count), rows) if outer else []
            line = T.buffer_proxy(flat)
            if outer:
                best.reduce(line, first, outer, windows)
            with T.serial(0, last.count) as window:
                if outer:
                    value, place = best.maximum(last, window)
                else:
                    value, place = _maximum(line, first, last, window)
                values[row * last.count + window] = value
                for result in found:
                    result[row * last.count + window] = tirx.Cast("int64", place)
        return builder.get()

    dtypes = [str(x.dtype), "int64"][: 1 + places]
    return te.extern([shape] * len(dtypes), [x], emit, name="window_maxima", dtype=dtypes)


def _maximum(line: Any, first: Any, axis: Windows, window: Any) -> tuple[Any, Any]:
    """Return the largest element in a window of a single line, and its position."""
    best, place = variable(str(line.dtype)), variable("int64")
    place[0], best[0] = tirx.const(-1, "int64"), tirx.const(0, str(line.dtype))
    with T.serial(0, axis.taps) as tap:
        column, end = axis.place(window, tap)
        with T.If(tirx.all(column >= 0, column < end)), T.Then():
            value = variable(str(line.dtype))
            value[0] = line[first + column]
            larger = tirx.any(place[0] < 0, value[0] > best[0])
            with T.If(_or_no_number(larger, value[0])), T.Then():
                best[0] = value[0]
                place[0] = tirx.Cast("int64", column)
    return best[0], place[0]


class _Row:
    """The largest element of each column of some rows, and its position; -1 if there is none.

    The last vector of columns may overlap the one before: a second time, nothing changes.
    """

    def __init__(self, extent: int, elements: int, dtype: str) -> None:
        self.extent, self.dtype = extent, dtype
        self.index = "int32" if elements < 1 << 31 else "int64"
        self.lanes = min(LANES, extent)
        self.chunks = tirx.const(-(-extent // self.lanes), "int64")
        self.whole = lanes_from(0, self.lanes)
        self.values, self.places = (
            T.buffer_proxy(T.decl_buffer([extent], kind)) for kind in (dtype, self.index)
        )

    def reduce(self, source: Any, first: Any, axes: Sequence[Windows], windows: list[Any]) -> None:
        """Take the elements of all rows that are in a window of the outer ``axes``."""
        with T.serial(0, self.extent) as column:
            self.places[column] = tirx.const(-1, self.index)
            self.values[column] = tirx.const(0, self.dtype)
        with contextlib.ExitStack() as loops:
            row: Any = tirx.const(0, "int64")
            for axis, window in zip(axes, windows, strict=True):
                tap = loops.enter_context(T.serial(0, axis.taps))
                here, end = axis.place(window, tap)
                loops.enter_context(T.If(tirx.all(here >= 0, here < end)))
                loops.enter_context(T.Then())
                row = row * axis.extent + tirx.Cast("int64", here)
            start = variable("int64")
            start[0] = row * self.extent
            with T.serial(0, self.chunks) as chunk:
                column = tirx.min(chunk * self.lanes, self.extent - self.lanes)
                self._take(source, first + start[0] + column, start[0] + column, column)

    def _take(self, source: Any, here: Any, place: Any, column: Any) -> None:
        """Take the elements ``here``: no numbers, the first ones, or larger ones."""
        columns = lanes_from(column, self.lanes)
        value, best, places = variable(self.dtype, self.lanes), self.values, self.places
        value[self.whole] = source[lanes_from(here, self.lanes)]
        wide = tirx.Cast(self.index, place)
        none = places[columns] < filled(0, self.index, self.lanes)
        larger = tirx.any(none, value[self.whole] > best[columns])
        steps = tirx.Ramp(wide, tirx.const(1, self.index), self.lanes) if self.lanes > 1 else wide
        kept = variable("bool", self.lanes)
        kept[self.whole] = _or_no_number(larger, value[self.whole], self.lanes)
        best[columns] = tirx.Select(kept[self.whole], value[self.whole], best[columns])
        places[columns] = tirx.Select(kept[self.whole], steps, places[columns])

    def maximum(self, axis: Windows, window: Any) -> tuple[Any, Any]:
        """Return the largest of the columns in a window of the last axis, and its position."""
        best, place = variable(self.dtype), variable("int64")
        place[0], best[0] = tirx.const(-1, "int64"), tirx.const(0, self.dtype)
        with T.serial(0, axis.taps) as tap:
            column, end = axis.place(window, tap)
            with T.If(tirx.all(column >= 0, column < end)), T.Then():
                value, where = variable(self.dtype), variable("int64")
                value[0], where[0] = self.values[column], tirx.Cast("int64", self.places[column])
                better = replaces(value[0], where[0], best[0], place[0])
                with T.If(tirx.all(where[0] >= 0, better)), T.Then():
                    best[0] = value[0]
                    place[0] = where[0]
        return best[0], place[0]


def _or_no_number(condition: Any, value: Any, lanes: int = 1) -> Any:
    """Whether ``condition`` holds or ``value`` is NaN: TVM turns negated comparisons around."""
    return tirx.Select(tirx.LE(value, value), condition, filled(True, "bool", lanes))


def replaces(value: Any, where: Any, best: Any, place: Any) -> Any:
    """Whether a value is the new best: the first, larger, equal but earlier, or a later NaN."""
    number = tirx.any(value > best, tirx.all(tirx.EQ(value, best), where < place))
    later = tirx.Select(tirx.LE(best, best), tirx.const(True, "bool"), where > place)
    return tirx.any(place < 0, tirx.Select(tirx.LE(value, value), number, later))
