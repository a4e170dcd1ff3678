"""Sorting along an axis: stable, NaN above every number, without a library."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.ops.axis import Lines, on_axis, variable

_DYNAMIC_PASSES = 48
"""Merge passes where the length of a line is not known: each doubles the sorted runs."""

_INFINITY = {
    "float16": (16, 0x7C00),  # IEEE 754 binary16
    "bfloat16": (16, 0x7F80),  # the upper half of binary32
    "float32": (32, 0x7F800000),  # binary32
    "float64": (64, 0x7FF0000000000000),  # binary64
}
"""Bits of a number of each type, and infinity's."""


def argsort(x: te.Tensor, axis: int, *, descending: bool, dtype: str) -> te.Tensor:
    """Return the positions along ``axis`` in sorted order, equal elements in their old order.

    A bottom-up merge sort of each line. NaN counts as larger than any number, as in PyTorch.
    """
    lines = Lines.of(x.shape, on_axis(x, axis))

    def emit(inputs: Any, outputs: Any) -> Any:
        keys, order, merged = (T.buffer_proxy(b) for b in (*inputs, *outputs))
        with IRBuilder() as builder, T.parallel(0, lines.count) as line:
            with T.serial(0, lines.extent) as i:
                order[lines.place(line, i)] = tirx.Cast(dtype, i)
            with T.serial(0, _passes(lines.extent)) as step:
                _merge_pass(_Line(lines, line, descending), step, keys, order, merged)
        return builder.get()

    order, _ = te.extern(
        [x.shape, x.shape], [ordered(x)], emit, name="argsort", dtype=[dtype, dtype]
    )
    return order


def ordered(x: te.Tensor) -> te.Tensor:
    """Return integers in the order of the elements of ``x``: equal for equal elements."""
    dtype = str(x.dtype)
    if dtype == "bool":
        return te.compute(x.shape, lambda *i: tirx.Cast("int8", x(*i)), name="key")
    if dtype not in _INFINITY:
        return x
    width, infinity = _INFINITY[dtype]
    integer = f"int{width}"
    largest = tirx.const((1 << width - 1) - 1, integer)

    def key(*place: Any) -> Any:
        bits = tirx.reinterpret(integer, x(*place))
        magnitude = tirx.bitwise_and(bits, largest)
        number = tirx.Select(bits < 0, -magnitude, bits)
        return tirx.Select(magnitude > tirx.const(infinity, integer), largest, number)

    return te.compute(x.shape, key, name="key")


def _passes(extent: Any) -> int:
    if isinstance(extent, tirx.IntImm):
        return max(0, int(extent) - 1).bit_length()
    return _DYNAMIC_PASSES


class _Line:
    """One line of the tensor, while it is sorted."""

    def __init__(self, lines: Lines, line: Any, descending: bool) -> None:
        self.lines, self.line, self.descending = lines, line, descending
        self.extent = tirx.Cast("int64", lines.extent)

    def place(self, position: Any) -> Any:
        """Return the flat index of ``position``."""
        return self.lines.place(self.line, position)

    def before(self, a: Any, b: Any) -> Any:
        """Whether the key ``a`` must stand before the key ``b``."""
        return b < a if self.descending else a < b


def _merge_pass(line: _Line, step: Any, keys: Any, order: Any, merged: Any) -> None:
    """Merge neighbouring sorted runs of ``2 ** step`` positions."""
    width = variable("int64")
    width[0] = tirx.shift_left(tirx.const(1, "int64"), tirx.Cast("int64", step))
    with T.serial(0, tirx.ceildiv(line.extent, width[0] * 2)) as pair:
        left, right, middle, end, first = (variable("int64") for _ in range(5))
        first[0] = tirx.Cast("int64", pair) * width[0] * 2
        middle[0] = tirx.min(first[0] + width[0], line.extent)
        end[0] = tirx.min(middle[0] + width[0], line.extent)
        left[0], right[0] = first[0], middle[0]
        with T.serial(0, end[0] - first[0]) as k:
            a, b = variable("int64"), variable("int64")
            a[0] = tirx.Cast("int64", order[line.place(tirx.min(left[0], middle[0] - 1))])
            b[0] = tirx.Cast("int64", order[line.place(tirx.min(right[0], end[0] - 1))])
            later = line.before(keys[line.place(b[0])], keys[line.place(a[0])])
            taken = tirx.any(left[0] >= middle[0], tirx.all(right[0] < end[0], later))
            with T.If(taken):
                with T.Then():
                    merged[line.place(first[0] + k)] = tirx.Cast(str(merged.dtype), b[0])
                    right[0] = right[0] + 1
                with T.Else():
                    merged[line.place(first[0] + k)] = tirx.Cast(str(merged.dtype), a[0])
                    left[0] = left[0] + 1
    with T.serial(0, line.extent) as i:
        order[line.place(i)] = merged[line.place(i)]
