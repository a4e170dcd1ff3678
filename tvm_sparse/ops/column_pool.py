"""Reductions over one of the outer axes: columns side by side, in whole vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.machine.vector import LANES
from tvm_sparse.numerics import FLOAT_SUMS, INTEGER_SUMS
from tvm_sparse.ops.axis import Lines, flat_view, power_of_two, variable
from tvm_sparse.ops.emit import first_column
from tvm_sparse.ops.permute import PARALLEL_POINTS
from tvm_sparse.ops.quantise import Scale
from tvm_sparse.ops.row_pool import Pooling

MOST_BYTES = (1 << 31) // 256
"""Bytes whose sum is a 32-bit integer."""

LEAST, _MOST = 4 * LANES, 16 * LANES
"""Columns that stay in registers while their rows are combined: long pieces of each row."""


def column_pool(
    x: te.Tensor,
    lines: Lines,
    pooling: Pooling,
    shape: Sequence[Any],
    scale: Scale | None = None,
) -> te.Tensor:
    """Return the tensor of ``shape`` of what ``pooling`` makes of each of ``lines`` of ``x``.

    ``lines`` are static, and at least ``LEAST`` of them are side by side. The last tile of columns
    ends with them: it may overlap the one before. With a ``scale``, ``x`` are bytes and ``pooling``
    adds up what they mean: the sums are of whole numbers, at most :data:`MOST_BYTES` of them.
    """
    before, extent, columns = (int(n) for n in (lines.before, lines.extent, lines.after))
    width = power_of_two(min(columns, _MOST))
    size, tiles = before * extent * columns, -(-columns // width)
    dtype, kind = (FLOAT_SUMS, INTEGER_SUMS) if scale else (str(x.dtype), str(x.dtype))
    loop = T.parallel if size >= PARALLEL_POINTS else T.serial
    one, rows = (tirx.const(n, "int64") for n in (1, extent))

    def emit(inputs: list[tirx.Buffer], outputs: list[tirx.Buffer]) -> tirx.PrimFunc:
        with IRBuilder() as builder, loop(0, tirx.const(before * tiles, "int64")) as tile:
            source, result = flat_view(inputs[0], size), flat_view(outputs[0], before * columns)
            item, column = tile // tiles, first_column(tile % tiles, width, columns)
            found = variable(kind, width)
            with T.vectorized(0, tirx.const(width, "int64")) as lane:
                found[lane] = tirx.Cast(kind, source[item * (extent * columns) + column + lane])
            with T.serial(one, rows) as row:
                with T.vectorized(0, tirx.const(width, "int64")) as lane:
                    value = source[(item * extent + row) * columns + column + lane]
                    found[lane] = pooling.combine(found[lane], tirx.Cast(kind, value))
            with T.vectorized(0, tirx.const(width, "int64")) as lane:
                total = scale.meaning(found[lane], extent) if scale else found[lane]
                result[item * columns + column + lane] = pooling.finish(total, one, rows)
        return builder.get()

    return te.extern([shape], [x], emit, name="column_pool", dtype=[dtype])
