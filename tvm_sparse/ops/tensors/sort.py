"""Sorting along an axis: stable, NaN above every number, without a library."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.ops.tensors.axis import Lines, on_axis, variable

_MOST_PASSES = 58
"""Merge passes of the longest line: each doubles the sorted runs, and positions have 63 bits."""

_RUN = 32
"""Keys that are sorted by counting: each is compared with all, two vectors of AVX-512 at a time."""

_RANK = "int32"
"""Type of positions in a run."""

_INFINITY = {
    "float16": (16, 0x7C00),  # IEEE 754 binary16
    "bfloat16": (16, 0x7F80),  # the upper half of binary32
    "float32": (32, 0x7F800000),  # binary32
    "float64": (64, 0x7FF0000000000000),  # binary64
}
"""Bits of a number of each type, and infinity's."""


def argsort(x: te.Tensor, axis: int, *, descending: bool, dtype: str) -> te.Tensor:
    """Return the positions along ``axis`` in sorted order, equal elements in their old order.

    Runs of 32 by counting, then a bottom-up merge sort of each line. NaN counts as larger than any
    number, as in PyTorch.

    Raises
    ------
    UnsupportedError
        A line is longer than ``dtype`` can count.
    """
    lines = Lines.of(x.shape, on_axis(x, axis))
    if isinstance(lines.extent, tirx.IntImm) and int(lines.extent) > np.iinfo(dtype).max + 1:
        found = f"positions of {dtype} on lines of {int(lines.extent)}"
        raise UnsupportedError("argsort", found, "int64", "ask for wider positions")
    if isinstance(lines.extent, tirx.IntImm) and int(lines.extent) == 1:
        return te.compute(x.shape, lambda *_: tirx.const(0, dtype), name="argsort")

    def emit(inputs: Any, outputs: Any) -> Any:
        source, order = (T.buffer_proxy(b) for b in (*inputs, *outputs))
        with IRBuilder() as builder, T.parallel(0, lines.count) as number:
            line = _Line(lines.extent, str(inputs[0].dtype), descending)
            with T.serial(0, lines.extent) as i:
                place = tirx.Cast("int64", i)
                line.keys[place] = source[lines.place(number, i)]
                line.positions[place] = tirx.Cast(line.position, i)
            line.sort_runs()
            passes = _passes(lines.extent)
            with T.serial(0, passes) as step:
                line.merge_runs(step)
            with T.serial(0, lines.extent) as i:
                found = line.positions[(passes + 1) % 2 * line.length + i]
                order[lines.place(number, i)] = tirx.Cast(dtype, found)
        return builder.get()

    return te.extern([x.shape], [ordered(x)], emit, name="argsort", dtype=[dtype])


def position_type(extent: Any) -> str:
    """Return the type of positions on a line: 32 bits where they are known to be enough."""
    short = isinstance(extent, tirx.IntImm) and int(extent) <= 1 << 31
    return "int32" if short else "int64"


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


def _passes(extent: Any) -> Any:
    """Return how often runs are merged; where the length of a line is not known, emit a count."""
    if isinstance(extent, tirx.IntImm):
        return tirx.const((max(0, int(extent) - 1) // _RUN).bit_length(), "int64")
    passes = variable("int64")
    passes[0] = tirx.const(0, "int64")
    with T.serial(0, _MOST_PASSES) as step:
        length = tirx.shift_left(tirx.const(_RUN, "int64"), tirx.Cast("int64", step))
        passes[0] = passes[0] + tirx.Cast("int64", length < tirx.Cast("int64", extent))
    return passes[0]


class _Line:
    """One line of the tensor while it is sorted: two copies of its keys and their positions.

    They are whole runs long, and one more place may be read, where a run has come to its end.
    """

    def __init__(self, extent: Any, dtype: str, descending: bool) -> None:
        self.extent, self.descending, self.dtype = tirx.Cast("int64", extent), descending, dtype
        self.length = tirx.ceildiv(self.extent, _RUN) * _RUN + 1
        self.position = position_type(extent)
        kinds = (dtype, self.position)
        self.keys, self.positions = (
            T.buffer_proxy(T.decl_buffer([2 * self.length], kind)) for kind in kinds
        )

    def sort_runs(self) -> None:
        """Sort runs of the first copy into the second: a key stands behind all that are before it.

        What fills the last run up stands behind everything.
        """
        last = (tirx.min_value if self.descending else tirx.max_value)(self.dtype)
        with T.serial(self.extent, self.length) as i:
            self.keys[i] = last
        ranks = T.buffer_proxy(T.decl_buffer([_RUN], _RANK, scope="local"))
        lanes = tirx.Ramp(tirx.const(0, _RANK), tirx.const(1, _RANK), _RUN)
        whole = tirx.Ramp(0, 1, _RUN)
        with T.serial(0, tirx.floordiv(self.length, _RUN)) as run:
            keys = self.keys[tirx.Ramp(run * _RUN, 1, _RUN)]
            ranks[whole] = tirx.Broadcast(tirx.const(0, _RANK), _RUN)
            with T.serial(0, _RUN) as k:
                key = tirx.Broadcast(self.keys[run * _RUN + k], _RUN)
                earlier = tirx.Broadcast(tirx.Cast(_RANK, k), _RUN) < lanes
                behind = tirx.Select(
                    earlier, tirx.Not(self._before(keys, key)), self._before(key, keys)
                )
                ranks[whole] = ranks[whole] + tirx.Cast(f"{_RANK}x{_RUN}", behind)
            with T.serial(0, tirx.min(_RUN, self.extent - run * _RUN)) as k:
                place = self.length + run * _RUN + ranks[k]
                self.keys[place] = self.keys[run * _RUN + k]
                self.positions[place] = tirx.Cast(self.position, run * _RUN + k)

    def merge_runs(self, step: Any) -> None:
        """Merge runs of ``_RUN * 2 ** step`` keys of one copy in pairs, into the other."""
        width, source, target = (variable("int64") for _ in range(3))
        width[0] = tirx.shift_left(tirx.const(_RUN, "int64"), step)
        source[0] = (step + 1) % 2 * self.length
        target[0] = self.length - source[0]
        with T.serial(0, tirx.ceildiv(self.extent, width[0] * 2)) as pair:
            first, middle, end, left, right = (variable("int64") for _ in range(5))
            first[0] = pair * width[0] * 2
            middle[0] = source[0] + tirx.min(first[0] + width[0], self.extent)
            end[0] = source[0] + tirx.min(first[0] + width[0] * 2, self.extent)
            left[0], right[0] = source[0] + first[0], middle[0]
            with T.serial(0, end[0] - left[0]) as k:
                taken, place = variable("int64"), variable("int64")
                # No branch: which run is next cannot be predicted.
                taken[0] = tirx.Cast("int64", self._right_is_next(left, middle, right, end))
                place[0] = left[0] + (right[0] - left[0]) * taken[0]
                self.keys[target[0] + first[0] + k] = self.keys[place[0]]
                self.positions[target[0] + first[0] + k] = self.positions[place[0]]
                left[0] = left[0] + 1 - taken[0]
                right[0] = right[0] + taken[0]

    def _before(self, a: Any, b: Any) -> Any:
        """Whether the key ``a`` must stand before the key ``b``."""
        return b < a if self.descending else a < b

    def _right_is_next(self, left: Any, middle: Any, right: Any, end: Any) -> Any:
        """Whether the right run has a key, and that stands before what the left one has."""
        before = self._before(self.keys[right[0]], self.keys[left[0]])
        exhausted = left[0] >= middle[0]
        return tirx.bitwise_and(right[0] < end[0], tirx.bitwise_or(exhausted, before))
