"""Pooling where columns lie side by side: rows of windows in whole vectors, columns by shuffles."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.ops.emit import lanes_from, spread, unravel
from tvm_sparse.ops.marks import flat
from tvm_sparse.ops.tensors.axis import flat_view, variable
from tvm_sparse.ops.tensors.extrema import MAX, lowest
from tvm_sparse.ops.tensors.permute import PARALLEL_POINTS
from tvm_sparse.ops.tensors.windows import Axis, Chunk, Shares, width_of

MOST_TOGETHER = 16
"""Vectors of results of a small plane that are written out, with all their windows known."""


def _itself(value: Any, _rows: Any, _columns: Any) -> Any:
    return value


@dataclass(frozen=True)
class Pooling:
    """How the elements of a window become one.

    ``finish`` gets what they are combined to, and how many rows and columns of the window are
    elements.
    """

    neutral: Callable[[str], Any]
    combine: Callable[[Any, Any], Any]
    finish: Callable[[Any, Any, Any], Any] = _itself


MAXIMUM = Pooling(lowest, MAX.combine)


def mean(axes: Sequence[Axis | Shares], *, counts_borders: bool) -> Pooling:
    """Return the average over ``axes``; borders are zeros, and elements if ``counts_borders``."""
    area = math.prod(axis.size for axis in axes)

    def divided(total: Any, rows: Any, columns: Any) -> Any:
        dtype = str(total.ty.dtype)
        if counts_borders:
            return total / tirx.const(area, dtype)
        return total / (tirx.Cast(dtype, rows) * tirx.Cast(dtype, columns))

    return Pooling(lambda dtype: tirx.const(0, dtype), lambda a, b: a + b, divided)


def row_pool(
    x: te.Tensor, axes: Sequence[Axis | Shares], chunks: Sequence[Chunk], pooling: Pooling
) -> te.Tensor:
    """Return what ``pooling`` makes of each window over ``axes``, the last ones of ``x``.

    ``chunks`` are those of the last axis, each window has an element in it (:meth:`Axis.is_near`).
    The rows of a window are combined first, whole vectors of columns at a time.
    """
    lead, counts = list(x.shape[: len(x.shape) - len(axes)]), [int(axis.count) for axis in axes]
    items, rows = math.prod(map(int, lead)), math.prod(counts[:-1])
    size = math.prod(map(int, x.shape))
    wide = items * rows * counts[-1] * math.prod(axis.size for axis in axes) >= PARALLEL_POINTS
    kernel = _Kernel(axes, pooling, str(x.dtype))
    together = rows if rows * len(chunks) <= MOST_TOGETHER else 1

    def emit(inputs: list[tirx.Buffer], outputs: list[tirx.Buffer]) -> tirx.PrimFunc:
        loop = T.parallel if wide else T.serial
        count = tirx.const(items * rows // together, "int64")
        with IRBuilder() as builder, loop(0, count) as number:
            source = flat_view(inputs[0], size)
            result = flat_view(outputs[0], items * rows * counts[-1])
            item, *windows = unravel(number, (items, *counts[:-1]))
            lines = [(item, windows)]
            if together > 1:
                known = np.ndindex(*counts[:-1])
                lines = [(number, [tirx.const(i, "int64") for i in place]) for place in known]
            for row, at in enumerate(lines):
                for chunk in chunks:
                    first = (number * together + row) * counts[-1]
                    kernel.emit(source, result, chunk, (*at, first))
        return builder.get()

    return te.extern([[*lead, *counts]], [x], emit, name="row_pool", dtype=[x.dtype])


@dataclass(frozen=True)
class _Kernel:
    """The code of neighbouring results."""

    axes: Sequence[Axis | Shares]
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
            vector[lanes_from(0, width)] = spread(neutral, width)
        self._add_rows(source, vectors, chunk.loads, (item, windows))
        found, every = variable(self.dtype, size), lanes_from(0, size)
        # Shuffles have no more results than lanes.
        borders = [spread(neutral, width)] * max(1, -(-size // width) - len(chunk.loads))
        lanes = [vector[lanes_from(0, width)] for vector in vectors]
        for tap, places in enumerate(chunk.taps):
            value = T.bind(
                tirx.Shuffle([*lanes, *borders], [tirx.const(place, "int32") for place in places])
            )
            found[every] = self.pooling.combine(found[every], value) if tap else value
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
