"""Softmax along a last axis of open extent, in vectors whatever that extent is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.emit import filled, lanes_from, spread
from tvm_sparse.ops.marks import FUSION, OPAQUE, int64
from tvm_sparse.ops.tensors.axis import Lines, flat_view, folded, variable


def open_softmax(shape: tuple[Any, ...], dtype: str, *, logarithm: bool = False) -> tirx.PrimFunc:
    """Return ``f(X, Y)``: the softmax, or its ``logarithm``, of each row; the extent is symbolic.

    The last vector of a row ends with it, so no lane has a condition; lanes that it has in common
    with the one before do not count again in the sum. Rows shorter than a vector go element by
    element. Sums have the order of :func:`tvm_sparse.ops.tensors.rows.softmax`.
    """
    x = te.placeholder(int64(shape), dtype, "X")

    def emit(inputs: Any, outputs: Any) -> Any:
        lines = Lines.of(shape, len(shape) - 1)
        whole = lines.extent >= tirx.const(LANES, "int64")

        def rows(lanes: int) -> None:
            with T.parallel(tirx.const(0, "int64"), lines.count) as line:
                size = lines.count * lines.extent
                source, result = (flat_view(b[0], size) for b in (inputs, outputs))
                row = _Row(source, result, dtype, lines.extent, logarithm=logarithm)
                row.emit(line * lines.extent, lanes)

        with IRBuilder() as builder, T.If(whole):
            with T.Then():
                rows(LANES)
            with T.Else():
                rows(1)
        return builder.get()

    y = te.extern([int64(shape)], [x], emit, name="open_softmax", dtype=dtype)
    func = te.create_prim_func([x, y]).with_attr(FUSION, OPAQUE)
    return func.with_attr("tirx.noalias", True)


class _Row:
    """Emits the steps of one row, so many lanes at a time."""

    def __init__(
        self, source: Any, result: Any, dtype: str, extent: Any, *, logarithm: bool
    ) -> None:
        self.source, self.result, self.dtype = source, result, dtype
        self.extent, self.logarithm = extent, logarithm

    def emit(self, begin: Any, lanes: int) -> None:
        """Emit the row that begins at ``begin``."""
        every = lanes_from(0, lanes)
        best, total = variable(self.dtype, lanes), variable(self.dtype, lanes)
        best[every] = spread(tirx.min_value(self.dtype), lanes)
        total[every] = filled(0.0, self.dtype, lanes)

        def largest(at: Any, _counts: Any) -> None:
            best[every] = tirx.max(best[every], self.source[at])

        self._pieces(begin, lanes, largest)
        top = variable(self.dtype)
        top[0] = folded(best, lanes, tirx.max)

        def summed(at: Any, counts: Any) -> None:
            value = variable(self.dtype, lanes)
            value[every] = tirx.exp(self.source[at] - spread(top[0], lanes))
            if not self.logarithm:
                self.result[at] = value[every]
            kept = value[every]
            if counts is not None:
                kept = tirx.Select(counts, kept, filled(0.0, self.dtype, lanes))
            total[every] = total[every] + kept

        self._pieces(begin, lanes, summed)
        sums = variable(self.dtype)
        sums[0] = folded(total, lanes, lambda a, b: a + b)
        self._finish(begin, lanes, top, sums)

    def _finish(self, begin: Any, lanes: int, top: Any, sums: Any) -> None:
        """Emit the results, given the row's largest element and its sum."""
        factor = variable(self.dtype)
        one = tirx.const(1, self.dtype)
        factor[0] = tirx.log(sums[0]) if self.logarithm else one / sums[0]

        def scaled(at: Any, counts: Any) -> None:
            own = spread(factor[0], lanes)
            if self.logarithm:
                self.result[at] = self.source[at] - spread(top[0], lanes) - own
            elif counts is None:
                self.result[at] = self.result[at] * own
            else:  # what the vector before has scaled already is not scaled again
                value = self.result[at]
                self.result[at] = tirx.Select(counts, value * own, value)

        self._pieces(begin, lanes, scaled)

    def _pieces(self, begin: Any, lanes: int, emit: Callable[[Any, Any], None]) -> None:
        """Emit a step for all vectors of the row, and which lanes count of one at its end."""
        zero, width = tirx.const(0, "int64"), tirx.const(lanes, "int64")
        with T.serial(zero, tirx.floordiv(self.extent, width)) as i:
            emit(lanes_from(begin + i * width, lanes), None)
        if lanes == 1:
            return
        rest = tirx.floormod(self.extent, width)
        with T.If(rest > zero), T.Then():
            counts = tirx.Ramp(zero, tirx.const(1, "int64"), lanes) >= spread(width - rest, lanes)
            emit(lanes_from(begin + self.extent - width, lanes), counts)
