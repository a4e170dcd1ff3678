"""Pooling where columns lie side by side: rows of windows in whole vectors, columns by shuffles."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.axis import flat_view, power_of_two, variable
from tvm_sparse.ops.emit import unravel
from tvm_sparse.ops.extrema import MAX, lowest
from tvm_sparse.ops.marks import flat
from tvm_sparse.ops.permute import PARALLEL_POINTS
from tvm_sparse.ops.windows import Axis

MOST_LOADS = 4
"""Vectors of columns that neighbouring results may come from."""

MOST_CHUNKS = 64
"""Vectors of results of a row that are written out one after the other."""


@dataclass(frozen=True)
class Chunk:
    """Neighbouring results of a row, and the vectors of columns that they come from.

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


def chunks_of(columns: Axis) -> list[Chunk] | None:
    """Return how to find the results of a row, ``None`` if shuffles cannot.

    The last chunk ends with the row: it may overlap the one before.
    """
    extent, count = int(columns.extent), int(columns.count)
    size, width = min(LANES, count), width_of(extent)
    if width < 2 or size < 2 or count > MOST_CHUNKS * size or not columns.is_near():
        return None
    starts = [min(first, count - size) for first in range(0, count, size)]
    chunks = [_chunk(columns, start, size, width) for start in starts]
    return chunks if max(len(chunk.loads) for chunk in chunks) <= MOST_LOADS else None


def _chunk(columns: Axis, start: int, size: int, width: int) -> Chunk:
    extent = int(columns.extent)
    places = [
        [(start + i) * columns.stride + tap - columns.border for i in range(size)]
        for tap in range(columns.size)
    ]
    inside = [place for row in places for place in row if 0 <= place < extent]
    firsts = range(min(inside), max(inside) + 1, width)
    loads = tuple(dict.fromkeys(min(first, extent - width) for first in firsts))

    def lane(place: int) -> int:
        for number, load in enumerate(loads):
            if 0 <= place - load < width:
                return number * width + place - load
        return len(loads) * width

    return Chunk(start, loads, tuple(tuple(map(lane, row)) for row in places))


@dataclass(frozen=True)
class Pooling:
    """How the elements of a window become one.

    ``finish`` gets what they are combined to, and how many rows and columns of the window are
    elements.
    """

    neutral: Callable[[str], Any]
    combine: Callable[[Any, Any], Any]
    finish: Callable[[Any, Any, Any], Any]


MAXIMUM = Pooling(lowest, MAX.combine, lambda value, _rows, _columns: value)


def mean(axes: Sequence[Axis], *, counts_borders: bool) -> Pooling:
    """Return the average over ``axes``; borders are zeros, and elements if ``counts_borders``."""
    area = math.prod(axis.size for axis in axes)

    def divided(total: Any, rows: Any, columns: Any) -> Any:
        dtype = str(total.ty.dtype)
        if counts_borders:
            return total / tirx.const(area, dtype)
        return total / (tirx.Cast(dtype, rows) * tirx.Cast(dtype, columns))

    return Pooling(lambda dtype: tirx.const(0, dtype), lambda a, b: a + b, divided)


def row_pool(
    x: te.Tensor, axes: Sequence[Axis], chunks: Sequence[Chunk], pooling: Pooling
) -> te.Tensor:
    """Return what ``pooling`` makes of each window over ``axes``, the last ones of ``x``.

    ``chunks`` are those of the last axis, each window has an element in it (:meth:`Axis.is_near`).
    The rows of a window are combined first, whole vectors of columns at a time.
    """
    lead, counts = list(x.shape[: len(x.shape) - len(axes)]), [int(axis.count) for axis in axes]
    rows = math.prod(map(int, lead)) * math.prod(counts[:-1])
    wide = rows * counts[-1] * math.prod(axis.size for axis in axes) >= PARALLEL_POINTS
    kernel = _Kernel(axes, pooling, str(x.dtype))

    def emit(inputs: list[tirx.Buffer], outputs: list[tirx.Buffer]) -> tirx.PrimFunc:
        loop = T.parallel if wide else T.serial
        with IRBuilder() as builder, loop(0, tirx.const(rows, "int64")) as row:
            source = flat_view(inputs[0], math.prod(map(int, x.shape)))
            result = flat_view(outputs[0], rows * counts[-1])
            item, *windows = unravel(row, (math.prod(map(int, lead)), *counts[:-1]))
            for chunk in chunks:
                kernel.emit(source, result, chunk, (item, windows, row * counts[-1]))
        return builder.get()

    return te.extern([[*lead, *counts]], [x], emit, name="row_pool", dtype=[x.dtype])


@dataclass(frozen=True)
class _Kernel:
    """The code of neighbouring results."""

    axes: Sequence[Axis]
    pooling: Pooling
    dtype: str

    def emit(self, source: Any, result: Any, chunk: Chunk, at: tuple[Any, list[Any], Any]) -> None:
        """Emit ``chunk`` of the row of results that begins ``at[2]``.

        ``at`` also says which item of the outer axes it is of, and which windows of the others.
        """
        item, windows, first = at
        columns = self.axes[-1]
        width, size = width_of(int(columns.extent)), len(chunk.taps[0])
        vectors = [variable(self.dtype, width) for _ in chunk.loads]
        neutral = self.pooling.neutral(self.dtype)
        for vector in vectors:
            vector[_all(width)] = tirx.Broadcast(neutral, width)
        self._add_rows(source, vectors, chunk.loads, (item, windows))
        found = variable(self.dtype, size)
        border = tirx.Broadcast(neutral, width)
        lanes = [vector[_all(width)] for vector in vectors]
        for tap, places in enumerate(chunk.taps):
            value = T.bind(
                tirx.Shuffle([*lanes, border], [tirx.const(place, "int32") for place in places])
            )
            found[_all(size)] = self.pooling.combine(found[_all(size)], value) if tap else value
        inside = [axis.inside(window) for axis, window in zip(self.axes, windows, strict=False)]
        with T.vectorized(0, tirx.const(size, "int64")) as lane:
            result[first + chunk.start + lane] = self.pooling.finish(
                found[lane],
                math.prod(inside, start=tirx.const(1, "int64")),
                columns.inside(chunk.start + lane),
            )

    def _add_rows(
        self, source: Any, vectors: list[Any], loads: Sequence[int], at: tuple[Any, list[Any]]
    ) -> None:
        """Emit the combination of all rows of a window, in the vectors that begin at ``loads``."""
        item, windows = at
        with contextlib.ExitStack() as loops:
            place = [item]
            for axis, window in zip(self.axes, windows, strict=False):
                rows = T.serial(axis.first(window), axis.end(window))
                place.append(loops.enter_context(rows))
            extents = (0, *(int(axis.extent) for axis in self.axes))
            start = flat([*place, 0], extents)
            for vector, load in zip(vectors, loads, strict=True):
                lanes = tirx.const(width_of(extents[-1]), "int64")
                with T.vectorized(0, lanes) as lane:
                    element = source[start + load + lane]
                    vector[lane] = self.pooling.combine(vector[lane], element)


def _all(lanes: int) -> Any:
    return tirx.Ramp(0, 1, lanes)
