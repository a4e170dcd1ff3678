"""Elements picked from, or written to, positions along an axis that are data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from tvm import te, tirx, topi
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.ops.emit import lanes_from, unravel
from tvm_sparse.ops.marks import flat
from tvm_sparse.ops.tensors.axis import Lines, flat_view, on_axis, power_of_two, variable

REDUCTIONS = ("update", "add", "mul", "min", "max")


_COLUMNS = 64
"""Columns of a row that are written at a time: four registers of AVX-512."""

_IN_VECTORS = ("float32", "float64", "float16", "int32", "int64", "int8", "uint8")
"""Types that vectors are combined in; others go one by one."""


def gather(x: te.Tensor, indices: te.Tensor, axis: int, shape: Sequence[Any] = ()) -> te.Tensor:
    """Return ``x[..., indices[...], ...]``; outside the axis NaN, for integers the nearest element.

    ``indices`` has the rank of ``x``; negative ones count from the end. They are repeated along
    axes of extent one to the ``shape`` of the result, if one is given.
    """
    axis = on_axis(x, axis)
    extent = tirx.Cast("int64", x.shape[axis])

    def element(*place: Any) -> Any:
        index = _from_front(indices(*_repeated(indices, place)), extent)
        inside = tirx.max(tirx.min(index, extent - 1), tirx.const(0, "int64"))
        value = x(*place[:axis], inside, *place[axis + 1 :])
        if "float" not in str(x.dtype):
            return value
        return tirx.Select(index == inside, value, tirx.const(float("nan"), str(x.dtype)))

    return te.compute(list(shape) or indices.shape, element, name="gather")


def scatter(
    x: te.Tensor,
    indices: te.Tensor,
    updates: te.Tensor,
    axis: int,
    reduction: str,
    *,
    columns: int = _COLUMNS,
) -> te.Tensor:
    """Return ``x`` with ``updates`` written to, or combined with, the elements at ``indices``.

    ``updates`` has the shape of ``indices``, which fits into that of ``x`` but for ``axis``. Of
    several updates of one element, the last counts; others are combined in their order. An index
    outside the axis changes nothing; negative ones count from the end. So many ``columns`` are the
    work of one thread.
    """
    axis = on_axis(x, axis)
    ours, theirs = Lines.of(x.shape, axis), Lines.of(indices.shape, axis)
    pieces = (theirs.after + columns - 1) // columns

    def emit(inputs: list[tirx.Buffer], outputs: list[tirx.Buffer]) -> Any:
        source, where, new, result = (T.buffer_proxy(b) for b in (*inputs, *outputs))

        def update(line: Any, k: Any) -> None:
            index, place = variable("int64"), variable("int64")
            value = variable(str(x.dtype))
            index[0] = _from_front(where[theirs.place(line, k)], ours.extent)
            place[0] = ours.place(_line_in(line, indices.shape, x.shape, axis), index[0])
            value[0] = new[theirs.place(line, k)]
            with T.If(tirx.all(index[0] >= 0, index[0] < ours.extent)), T.Then():
                result[place[0]] = combined(result[place[0]], value[0], reduction)

        with IRBuilder() as builder, T.serial(0, 1):
            with T.parallel(0, ours.count * ours.extent) as i:
                result[i] = source[i]
            # Neighbours in memory after one another, though each belongs to a line of its own.
            with T.parallel(0, theirs.before * pieces) as piece, T.serial(0, theirs.extent) as k:
                with T.serial(0, tirx.const(columns, "int64")) as i:
                    column = piece % pieces * columns + i
                    with T.If(column < theirs.after), T.Then():
                        update(piece // pieces * theirs.after + column, k)
        return builder.get()

    return te.extern([x.shape], [x, indices, updates], emit, name="scatter", dtype=str(x.dtype))


def scatter_rows(
    x: te.Tensor, indices: te.Tensor, updates: te.Tensor, axis: int, reduction: str
) -> te.Tensor:
    """Return what :func:`scatter` does where each index is that of a whole row.

    ``updates`` has the shape of ``x`` but for ``axis``; ``indices`` has the rank of both, and the
    extent one along the axes behind ``axis``, whose extents are known, and where they are repeated.
    Threads have columns of their own, so that the updates of an element keep their order.
    """
    lead, extent, count = list(x.shape[:axis]), x.shape[axis], updates.shape[axis]
    width = math.prod(int(extent) for extent in x.shape[axis + 1 :])

    def emit(inputs: list[tirx.Buffer], outputs: list[tirx.Buffer]) -> Any:
        buffers = [*inputs, *outputs]

        def task(number: Any, first: Any, columns: int) -> None:
            """Emit what happens to ``columns`` columns from ``first`` on of all rows."""
            own, ones = unravel(number, tuple(lead)), [0] * (len(x.shape) - axis - 1)
            source, where, new, result = (flat_view(b, topi.utils.prod(b.shape)) for b in buffers)
            with T.serial(0, extent) as row:
                for here in _vectors(str(x.dtype), columns):
                    place = here((number * extent + row) * width + first)
                    result[place] = source[place]
            with T.serial(0, count) as k:
                index, at = variable("int64"), [*_repeated(indices, [*own, k]), *ones]
                index[0] = _from_front(where[flat(at, tuple(indices.shape))], extent)
                with T.If(tirx.all(index[0] >= 0, index[0] < extent)), T.Then():
                    for here in _vectors(str(x.dtype), columns):
                        there = here((number * extent + index[0]) * width + first)
                        update = new[here((number * count + k) * width + first)]
                        result[there] = combined(result[there], update, reduction)

        whole, rest = divmod(width, _COLUMNS)
        images = topi.utils.prod(lead)
        with IRBuilder() as builder, T.serial(0, 1):
            if whole:
                with T.parallel(0, images * whole) as piece:
                    task(piece // whole, piece % whole * _COLUMNS, _COLUMNS)
            if rest:
                with T.parallel(0, images) as number:
                    task(number, tirx.const(whole * _COLUMNS, "int64"), rest)
        return builder.get()

    return te.extern([x.shape], [x, indices, updates], emit, name="scatter", dtype=str(x.dtype))


def _vectors(dtype: str, columns: int) -> Iterator[Callable[[Any], Any]]:
    """Yield, for the vectors that ``columns`` are, what makes its index of the first column's."""
    first, most = 0, _COLUMNS if dtype in _IN_VECTORS else 1
    while first < columns:
        lanes = min(most, power_of_two(columns - first))
        yield partial(_from_first, first, lanes)
        first += lanes


def _from_first(first: int, lanes: int, place: Any) -> Any:
    return lanes_from(place + first, lanes)


def _repeated(indices: te.Tensor, place: Sequence[Any]) -> list[Any]:
    """Return where ``indices`` have what counts at ``place``: axes of extent one are repeated."""
    extents = [indices.shape[i] for i in range(len(place))]
    ones = (isinstance(e, tirx.IntImm) and int(e) == 1 for e in extents)
    return [tirx.const(0, "int64") if one else i for one, i in zip(ones, place, strict=True)]


def _from_front(index: Any, extent: Any) -> Any:
    wide = tirx.Cast("int64", index)
    return tirx.Select(wide < 0, wide + extent, wide)


def _line_in(line: Any, smaller: Any, larger: Any, axis: int) -> Any:
    """Return the number, in a tensor of shape ``larger``, of the ``line`` of one of ``smaller``."""
    rest = [(a, b) for i, (a, b) in enumerate(zip(smaller, larger, strict=True)) if i != axis]
    number: Any = tirx.const(0, "int64")
    stride: Any = 1
    for few, many in reversed(rest):
        number = number + line % few * stride
        line, stride = line // few, stride * many
    return number


def combined(old: Any, new: Any, reduction: str) -> Any:
    """Return what ``reduction`` makes of an element, or a vector, and its update."""
    if reduction == "update":
        return new
    if reduction in ("add", "mul"):
        return old + new if reduction == "add" else old * new
    beyond = new < old if reduction == "min" else new > old
    # A comparison with NaN fails: an old NaN stays, and a new one is not a number to compare.
    return tirx.Select(tirx.LE(new, new), tirx.Select(beyond, new, old), new)
