"""The elements of each window of planes as a column: rows are copied, none is looked up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.ops.marks import INDEPENDENT
from tvm_sparse.ops.tensors.axis import flat_view
from tvm_sparse.ops.tensors.permute import PARALLEL_POINTS


@dataclass(frozen=True)
class Taps:
    """The elements that windows along one axis have, tap by tap; those of borders are zeros."""

    extent: int
    size: int
    dilation: int
    border: int
    stride: int

    @property
    def count(self) -> int:
        """Number of windows."""
        reach = self.dilation * (self.size - 1) + 1
        return (self.extent + 2 * self.border - reach) // self.stride + 1

    def place(self, window: Any, tap: Any) -> Any:
        """Return the position of a tap of a window."""
        return window * self.stride + tap * self.dilation - self.border

    def inside(self, tap: int) -> range:
        """Return the windows whose tap is an element."""
        first = max(0, -(self.place(0, tap) // self.stride))
        end = (self.extent - 1 - self.place(0, tap)) // self.stride + 1
        return range(min(first, self.count), max(min(end, self.count), min(first, self.count)))


def im2col(x: te.Tensor, rows: Taps, columns: Taps) -> te.Tensor:
    """Return the windows of planes ``(n, channels, height, width)``.

    The result is ``(n, channels * taps, windows)``. Taps and windows are numbered row by row.
    """
    items, channels, *_ = (int(extent) for extent in x.shape)
    count = rows.count * columns.count
    taps = rows.size * columns.size
    few = items * channels * taps * count < PARALLEL_POINTS
    loop = partial(T.serial, annotations={INDEPENDENT: 1}) if few else T.parallel

    def emit(inputs: list[tirx.Buffer], outputs: list[tirx.Buffer]) -> tirx.PrimFunc:
        extents = (items * channels, rows.size, rows.count)
        with IRBuilder() as builder, loop(0, tirx.const(extents[0] * extents[1], "int64")) as n:
            source = flat_view(inputs[0], math.prod(map(int, x.shape)))
            result = flat_view(outputs[0], extents[0] * taps * count)
            plane, tap = n // rows.size, n % rows.size
            for column in range(columns.size):
                with T.serial(0, tirx.const(rows.count, "int64")) as window:
                    place = rows.place(window, tap)
                    line = plane * (rows.extent * columns.extent) + place * columns.extent
                    there = ((n * columns.size + column) * rows.count + window) * columns.count
                    inside = tirx.all(place >= 0, place < rows.extent)
                    with T.If(inside):
                        with T.Then():
                            _row(source, result, (line, there), columns, column)
                        with T.Else():
                            _zeros(result, there, range(columns.count))
        return builder.get()

    shape = [tirx.const(extent, "int64") for extent in (items, channels * taps, count)]
    return te.extern([shape], [x], emit, name="im2col", dtype=[x.dtype])


def _row(source: Any, result: Any, at: tuple[Any, Any], columns: Taps, tap: int) -> None:
    """Emit the copy of a tap's elements; ``at`` is where both rows begin."""
    line, there = at
    inside = columns.inside(tap)
    _zeros(result, there, range(inside.start))
    if inside:
        with T.serial(
            tirx.const(inside.start, "int64"), tirx.const(inside.stop, "int64")
        ) as window:
            result[there + window] = source[line + columns.place(window, tap)]
    _zeros(result, there, range(inside.stop, columns.count))


def _zeros(result: Any, there: Any, windows: Sequence[int]) -> None:
    if windows:
        begin, end = (tirx.const(n, "int64") for n in (windows[0], windows[-1] + 1))
        with T.serial(begin, end) as window:
            result[there + window] = tirx.const(0, str(result.dtype))
