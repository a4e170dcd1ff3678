"""Reductions over one of the outer axes: columns side by side, in whole vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.machine.vector import LANES
from tvm_sparse.numerics import FLOAT_SUMS, INTEGER_SUMS, vector_type
from tvm_sparse.ops.axis import Lines, flat_view, power_of_two, variable
from tvm_sparse.ops.emit import first_column, lanes_from
from tvm_sparse.ops.permute import PARALLEL_POINTS
from tvm_sparse.ops.quantise import Scale
from tvm_sparse.ops.row_pool import Pooling

MOST_BYTES = (1 << 31) // 256
"""Bytes whose sum is a 32-bit integer."""

LEAST, _MOST = 4 * LANES, 16 * LANES
"""Columns that stay in registers while their rows are combined: long pieces of each row."""

_NARROW = 3 * LANES
"""Fewest columns of a tile that ends where others begin."""


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
    size = before * extent * columns
    shared = size >= PARALLEL_POINTS
    width = _width(columns, shared=shared and before == 1)
    tiles = -(-columns // width)
    dtype, kind = (FLOAT_SUMS, INTEGER_SUMS) if scale else (str(x.dtype), str(x.dtype))
    loop = T.parallel if shared else T.serial
    one, rows, vectors = (tirx.const(n, "int64") for n in (1, extent, width // LANES))

    def emit(inputs: list[tirx.Buffer], outputs: list[tirx.Buffer]) -> tirx.PrimFunc:
        with IRBuilder() as builder, loop(0, tirx.const(before * tiles, "int64")) as tile:
            source, result = flat_view(inputs[0], size), flat_view(outputs[0], before * columns)
            item, column = tile // tiles, first_column(tile % tiles, width, columns)
            found, wide = variable(kind, width), vector_type(kind, LANES)

            def loaded(row: Any, vector: Any) -> Any:
                at = (item * extent + row) * columns + column + vector * LANES
                return tirx.Cast(wide, source[lanes_from(at, LANES)])

            with T.unroll(0, vectors) as vector:
                found[lanes_from(vector * LANES, LANES)] = loaded(0, vector)
            with T.serial(one, rows) as row, T.unroll(0, vectors) as vector:
                place = lanes_from(vector * LANES, LANES)
                found[place] = pooling.combine(found[place], loaded(row, vector))
            lanes = tirx.const(LANES, "int64")
            with T.unroll(0, vectors) as vector, T.vectorized(0, lanes) as lane:
                place = vector * LANES + lane
                total = scale.meaning(found[place], extent) if scale else found[place]
                at = item * columns + column + place
                result[at] = pooling.finish(total, one, rows)
        return builder.get()

    return te.extern([shape], [x], emit, name="column_pool", dtype=[dtype])


def _width(columns: int, *, shared: bool) -> int:
    """Return the columns of a tile: tiles side by side if there are any, an even number if shared.

    Else the last tile overlaps the one before, and reads its columns again.
    """
    whole = [w for w in range(_NARROW, _MOST + 1, LANES) if columns % w == 0]
    even = [w for w in whole if columns // w % 2 == 0] if shared else []
    return max(even or whole, default=power_of_two(min(columns, _MOST)))
