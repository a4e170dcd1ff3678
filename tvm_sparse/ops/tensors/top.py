"""The first few places of each line in sorted order, without sorting the rest."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.tensors.axis import Lines, folded, on_axis, variable
from tvm_sparse.ops.tensors.sort import ordered

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
            held = _Held(str(keys.dtype), count, descending)
            with T.serial(0, count) as i:
                held.insert(keys[lines.place(line, i)], i, i)
            _take_others(held, lines, line, keys)
            with T.serial(0, count) as i:
                order[places.place(line, i)] = tirx.Cast(dtype, held.places[i])
        return builder.get()

    return te.extern([shape], [ordered(x)], emit, name="top", dtype=[dtype])


def _take_others(held: _Held, lines: Lines, line: Any, keys: Any) -> None:
    """Offer the rest of a line to the elements ``held``, which are its first ones so far.

    Each element that is better than the worst one held takes a place among them. Where elements lie
    side by side, a whole vector is passed over if its best element is not good enough.
    """
    extent, dtype = int(lines.extent), str(keys.dtype)
    aside = isinstance(lines.after, int | tirx.IntImm) and int(lines.after) == 1
    vectors = (extent - held.count) // LANES if aside else 0
    behind = extent - vectors * LANES
    with T.serial(held.count, tirx.const(behind, "int64")) as i:
        held.offer(keys[lines.place(line, i)], i)
    with T.serial(0, tirx.const(vectors, "int64")) as chunk:
        start = behind + chunk * LANES
        best = variable(dtype, LANES)
        with T.vectorized(0, tirx.const(LANES, "int64")) as lane:
            best[lane] = keys[lines.place(line, start + lane)]
        better = tirx.max if held.descending else tirx.min
        with T.If(held.is_better(folded(best, LANES, better))), T.Then():
            with T.serial(0, LANES) as lane:
                held.offer(keys[lines.place(line, start + lane)], start + lane)


class _Held:
    """The best elements of one line so far, in order, and their places."""

    def __init__(self, dtype: str, count: int, descending: bool) -> None:
        self.dtype, self.count, self.descending = dtype, count, descending
        self.keys, self.places = variable(dtype, count), variable("int64", count)

    def is_better(self, element: Any) -> Any:
        """Whether ``element`` stands before the last one that is held."""
        return self._before(element, self.keys[self.count - 1])

    def offer(self, element: Any, place: Any) -> None:
        """Take ``element`` if it stands before the last one, which is dropped."""
        with T.If(self.is_better(element)), T.Then():
            self.insert(element, place, self.count - 1)

    def insert(self, element: Any, place: Any, slot: Any) -> None:
        """Put ``element`` where it belongs in front of ``slot``, what was there is dropped."""
        free, going, key = variable("int64"), variable("int64"), variable(self.dtype)
        key[0], free[0] = element, tirx.Cast("int64", slot)
        going[0] = tirx.Cast("int64", free[0] > 0)
        with T.While(going[0] > 0):
            with T.If(self._before(key[0], self.keys[free[0] - 1])):
                with T.Then():
                    self.keys[free[0]] = self.keys[free[0] - 1]
                    self.places[free[0]] = self.places[free[0] - 1]
                    free[0] = free[0] - 1
                    going[0] = tirx.Cast("int64", free[0] > 0)
                with T.Else():
                    going[0] = tirx.const(0, "int64")
        self.keys[free[0]] = key[0]
        self.places[free[0]] = tirx.Cast("int64", place)

    def _before(self, a: Any, b: Any) -> Any:
        return b < a if self.descending else a < b
