"""Adaptive pooling of lines: windows next to one another, each in whole vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.marks import int64
from tvm_sparse.ops.tensors.axis import elements, flat_view, folded, rows_of, variable
from tvm_sparse.ops.tensors.permute import PARALLEL_POINTS
from tvm_sparse.ops.tensors.row_pool import Pooling
from tvm_sparse.ops.tensors.windows import Shares

_WIDEST = 4 * LANES
"""Results side by side: those of four vectors overlap, one would wait for itself."""

_LONG = 3 * _WIDEST
"""Elements of a window from which on their larger rest is worth it."""


def fits(windows: Shares) -> bool:
    """Whether each window fills a vector."""
    return 0 < windows.count and windows.extent // windows.count >= LANES


def line_pool(
    x: te.Tensor, windows: Shares, pooling: Pooling, shape: Sequence[Any] | None = None
) -> te.Tensor:
    """Return what ``pooling`` makes of each of ``windows`` over each line of ``x``.

    A window's last vector ends with it: what the one before has already is left out. The lines
    are those of the last axis; if they are of several, ``shape`` is that of the results.
    """
    size, count = elements(x.shape), windows.count
    (results,), dtype = int64((rows_of(size, windows.extent) * count,)), str(x.dtype)
    lanes = _WIDEST if windows.extent // count >= _LONG else LANES
    serial = isinstance(size, int) and size < PARALLEL_POINTS
    loop = T.serial if serial else T.parallel

    def emit(inputs: list[tirx.Buffer], outputs: list[tirx.Buffer]) -> tirx.PrimFunc:
        with IRBuilder() as builder, loop(0, results) as number:
            source, result = flat_view(inputs[0], size), flat_view(outputs[0], results)
            line, window = number // count * windows.extent, number % count
            first, end = (variable("int64") for _ in range(2))
            first[0], end[0] = line + windows.first(window), line + windows.end(window)
            elements = end[0] - first[0]
            found = variable(dtype, lanes)
            with T.vectorized(0, tirx.const(lanes, "int64")) as lane:
                found[lane] = source[first[0] + lane]
            with T.serial(1, elements // lanes) as chunk:
                with T.vectorized(0, tirx.const(lanes, "int64")) as lane:
                    value = source[first[0] + chunk * lanes + lane]
                    found[lane] = pooling.combine(found[lane], value)
            with T.vectorized(0, tirx.const(lanes, "int64")) as lane:
                new = lane >= lanes - elements % lanes
                last = source[end[0] - lanes + lane]
                value = tirx.Select(new, last, pooling.neutral(dtype))
                found[lane] = pooling.combine(found[lane], value)
            total = folded(found, lanes, pooling.combine)
            result[number] = pooling.finish(total, tirx.const(1, "int64"), elements)
        return builder.get()

    if shape is None:
        shape = [*x.shape[:-1], tirx.const(count, "int64")]
    return te.extern([shape], [x], emit, name="line_pool", dtype=[dtype])
