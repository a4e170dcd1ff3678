"""Elements picked from, or written to, positions along an axis that are data."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.ops.axis import Lines, on_axis, variable

REDUCTIONS = ("update", "add", "mul", "min", "max")


def gather(x: te.Tensor, indices: te.Tensor, axis: int) -> te.Tensor:
    """Return ``x[..., indices[...], ...]``; outside the axis NaN, for integers the nearest element.

    ``indices`` has the rank of ``x``; negative ones count from the end.
    """
    axis = on_axis(x, axis)
    extent = tirx.Cast("int64", x.shape[axis])

    def element(*place: Any) -> Any:
        index = _from_front(indices(*place), extent)
        inside = tirx.max(tirx.min(index, extent - 1), tirx.const(0, "int64"))
        value = x(*place[:axis], inside, *place[axis + 1 :])
        if "float" not in str(x.dtype):
            return value
        return tirx.Select(index == inside, value, tirx.const(float("nan"), str(x.dtype)))

    return te.compute(indices.shape, element, name="gather")


def scatter(
    x: te.Tensor, indices: te.Tensor, updates: te.Tensor, axis: int, reduction: str
) -> te.Tensor:
    """Return ``x`` with ``updates`` written to, or combined with, the elements at ``indices``.

    ``updates`` has the shape of ``indices``, which fits into that of ``x`` but for ``axis``. Of
    several updates of one element, the last counts. An index outside the axis changes nothing;
    negative ones count from the end.
    """
    axis = on_axis(x, axis)
    ours, theirs = Lines.of(x.shape, axis), Lines.of(indices.shape, axis)

    def emit(inputs: list[tirx.Buffer], outputs: list[tirx.Buffer]) -> Any:
        source, where, new, result = (T.buffer_proxy(b) for b in (*inputs, *outputs))
        with IRBuilder() as builder, T.serial(0, 1):
            with T.parallel(0, ours.count * ours.extent) as i:
                result[i] = source[i]
            with T.parallel(0, theirs.count) as line, T.serial(0, theirs.extent) as k:
                index, place = variable("int64"), variable("int64")
                update = variable(str(x.dtype))
                index[0] = _from_front(where[theirs.place(line, k)], ours.extent)
                place[0] = ours.place(_line_in(line, indices.shape, x.shape, axis), index[0])
                update[0] = new[theirs.place(line, k)]
                with T.If(tirx.all(index[0] >= 0, index[0] < ours.extent)), T.Then():
                    result[place[0]] = combined(result[place[0]], update[0], reduction)
        return builder.get()

    return te.extern([x.shape], [x, indices, updates], emit, name="scatter", dtype=str(x.dtype))


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
