"""Sorting along an axis on GPUs: every element finds its own place, so no thread waits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.ops.tensors.axis import Lines, on_axis, variable

RUN = 512
"""Elements that are compared with each other, before runs of them are merged."""


def widths(extent: Any) -> Iterator[int]:
    """Yield the lengths of the sorted runs that are merged in pairs, one launch after another.

    A line whose length is open is a single run.
    """
    width = RUN
    while isinstance(extent, tirx.IntImm) and width < int(extent):
        yield width
        width *= 2


def ranked(keys: te.Tensor, axis: int, *, descending: bool, dtype: str) -> te.Tensor:
    """Return the positions along ``axis`` in the order of their ``keys``, in each run of ``RUN``.

    An element's place is the number of those before it. Equal ones keep their order.
    """
    lines = Lines.of(keys.shape, on_axis(keys, axis))
    run = RUN if isinstance(lines.extent, tirx.IntImm) else lines.extent

    def emit(inputs: Any, outputs: Any) -> Any:
        source, order = (T.buffer_proxy(b) for b in (*inputs, *outputs))
        with IRBuilder() as builder, T.parallel(0, lines.count * lines.extent) as number:
            line, place = _numbers(lines, number)
            own = _Key(source, lines, line, place, descending)
            first, rank = variable("int64"), variable("int64")
            first[0] = place // run * run
            rank[0] = first[0]
            with T.serial(0, place - first[0]) as i:
                rank[0] = rank[0] + tirx.Cast("int64", own.not_before(first[0] + i))
            with T.serial(0, tirx.min(first[0] + run, lines.extent) - place) as i:
                rank[0] = rank[0] + tirx.Cast("int64", own.behind(place + i))
            order[lines.place(line, rank[0])] = tirx.Cast(dtype, place)
        return builder.get()

    return te.extern([keys.shape], [keys], emit, name="ranked", dtype=[dtype])


def merged(
    keys: te.Tensor, order: te.Tensor, axis: int, *, width: int, descending: bool
) -> te.Tensor:
    """Return an ``order`` that holds in runs of ``width`` with each two of them merged.

    An element's place is that in its own run and the number of those before it in the other one,
    which a binary search finds.
    """
    lines, dtype = Lines.of(keys.shape, on_axis(keys, axis)), str(order.dtype)

    def emit(inputs: Any, outputs: Any) -> Any:
        source, old, new = (T.buffer_proxy(b) for b in (*inputs, *outputs))
        with IRBuilder() as builder, T.parallel(0, lines.count * lines.extent) as number:
            line, place = _numbers(lines, number)
            own = _Key(source, lines, line, tirx.Cast("int64", old[number]), descending)
            pair, middle, low, high = (variable("int64") for _ in range(4))
            pair[0] = place // (2 * width) * (2 * width)
            middle[0] = tirx.min(pair[0] + width, lines.extent)
            left = place < middle[0]
            low[0] = tirx.Select(left, middle[0], pair[0])
            high[0] = tirx.Select(left, tirx.min(pair[0] + 2 * width, lines.extent), middle[0])
            with T.While(low[0] < high[0]):
                half, other = variable("int64"), variable("int64")
                half[0] = (low[0] + high[0]) // 2
                other[0] = tirx.Cast("int64", old[lines.place(line, half[0])])
                found = tirx.Select(left, own.behind(other[0]), own.not_before(other[0]))
                with T.If(found):
                    with T.Then():
                        low[0] = half[0] + 1
                    with T.Else():
                        high[0] = half[0]
            new[lines.place(line, place - middle[0] + low[0])] = old[number]
        return builder.get()

    return te.extern([keys.shape], [keys, order], emit, name="merged", dtype=[dtype])


def _numbers(lines: Lines, number: Any) -> tuple[Any, Any]:
    """Return the line of an element, which is that ``number`` in memory, and its place there."""
    line, place = variable("int64"), variable("int64")
    wide = tirx.Cast("int64", number)
    line[0] = wide // (lines.extent * lines.after) * lines.after + wide % lines.after
    place[0] = wide // lines.after % lines.extent
    return line[0], place[0]


class _Key:
    """The key of the element at ``position`` on a line, to compare with others."""

    def __init__(self, keys: Any, lines: Lines, line: Any, position: Any, descending: bool) -> None:
        self.keys, self.lines, self.line, self.descending = keys, lines, line, descending
        self.value = variable(str(keys.dtype))
        self.value[0] = keys[lines.place(line, position)]

    def behind(self, other: Any) -> Any:
        """Whether this key stands behind that at position ``other``."""
        value = self._at(other)
        return self.value[0] < value if self.descending else value < self.value[0]

    def not_before(self, other: Any) -> Any:
        """Whether this key stands behind that at position ``other``, or equals it."""
        value = self._at(other)
        return self.value[0] <= value if self.descending else value <= self.value[0]

    def _at(self, other: Any) -> Any:
        return self.keys[self.lines.place(self.line, other)]
