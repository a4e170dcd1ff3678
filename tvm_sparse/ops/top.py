"""The first few places of each line in sorted order, without sorting the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.ops.axis import Lines, on_axis, variable
from tvm_sparse.ops.sort import ordered

FEW = 64
"""Most places that are worth an insertion each; more are sorted."""


def top(x: te.Tensor, axis: int, count: int, *, descending: bool, dtype: str) -> te.Tensor:
    """Return the first ``count`` positions along ``axis`` of a stable sort.

    Each element is compared with the last place that was kept, and inserted where it stands
    before it: most are not. NaN counts as larger than any number, as in PyTorch. ``count`` is at
    least 1 and at most the extent of the axis.
    """
    axis = on_axis(x, axis)
    shape = [tirx.IntImm("int64", count) if i == axis else e for i, e in enumerate(x.shape)]
    lines, places = Lines.of(x.shape, axis), Lines.of(shape, axis)

    def emit(inputs: Any, outputs: Any) -> Any:
        keys, order = (T.buffer_proxy(b) for b in (*inputs, *outputs))
        with IRBuilder() as builder, T.parallel(0, lines.count) as line:
            held = _Held(lines, places, line, keys, order, descending)
            with T.serial(0, count) as i:
                held.insert(tirx.Cast("int64", i), tirx.Cast("int64", i))
            last = variable(str(keys.dtype))
            last[0] = held.key(count - 1)
            with T.serial(count, lines.extent) as i:
                element = keys[lines.place(line, i)]
                with T.If(held.before(element, last[0])), T.Then():
                    held.insert(tirx.Cast("int64", i), tirx.const(count - 1, "int64"))
                    last[0] = held.key(count - 1)
        return builder.get()

    return te.extern([shape], [ordered(x)], emit, name="top", dtype=[dtype])


@dataclass(frozen=True)
class _Held:
    """The places of one line that are kept so far, in order."""

    lines: Lines
    places: Lines
    line: Any
    keys: Any
    order: Any
    descending: bool

    def before(self, a: Any, b: Any) -> Any:
        """Whether the key ``a`` stands before the key ``b``."""
        return b < a if self.descending else a < b

    def key(self, slot: Any) -> Any:
        """Return the key of the element in ``slot``."""
        position = tirx.Cast("int64", self.order[self.places.place(self.line, slot)])
        return self.keys[self.lines.place(self.line, position)]

    def insert(self, position: Any, slot: Any) -> None:
        """Put ``position`` where it belongs in front of ``slot``, what was there is dropped."""
        free, going = variable("int64"), variable("int64")
        element = variable(str(self.keys.dtype))
        element[0] = self.keys[self.lines.place(self.line, position)]
        free[0], going[0] = slot, tirx.Cast("int64", slot > 0)
        with T.While(going[0] > 0):
            with T.If(self.before(element[0], self.key(free[0] - 1))):
                with T.Then():
                    left = self.order[self.places.place(self.line, free[0] - 1)]
                    self.order[self.places.place(self.line, free[0])] = left
                    free[0] = free[0] - 1
                    going[0] = tirx.Cast("int64", free[0] > 0)
                with T.Else():
                    going[0] = tirx.const(0, "int64")
        self.order[self.places.place(self.line, free[0])] = tirx.Cast(
            str(self.order.dtype), position
        )
