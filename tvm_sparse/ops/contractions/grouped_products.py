"""Rows that come in groups, each times the matrix of its group: the experts of a mixture."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.base.numerics import FLOAT_SUMS, vector_type
from tvm_sparse.ops.emit import filled, first_column, lanes_from, spread
from tvm_sparse.ops.marks import OPERATOR
from tvm_sparse.ops.tensors.axis import variable

_COLUMNS = 64
"""Columns of a result that are summed side by side: four registers of AVX-512."""

_ROWS = 4
"""Rows of a group that meet a column of its matrix while that is at hand."""


def tile_columns(outputs: int) -> np.ndarray:
    """Return the columns of each tile, ``(tiles, width)``; the last one ends with the outputs."""
    width = min(outputs, _COLUMNS)
    firsts = [min(first, outputs - width) for first in range(0, outputs, width)]
    return np.add.outer(firsts, np.arange(width))


def grouped_products(x: te.Tensor, weights: te.Tensor, ends: te.Tensor, outputs: int) -> te.Tensor:
    """Return ``x[i] @ w[g]`` for each row ``i`` of each group ``g``; sums are fp32.

    Parameters
    ----------
    x
        ``(rows, inputs)``, sorted by group.
    weights
        ``w``, which is ``(groups, inputs, outputs)``, by tiles of :func:`tile_columns`: ``(groups,
        tiles, inputs, width)``. Rows of powers of two would share few sets of the caches.
    ends
        ``(groups,)``: the row at which each group ends and the next one begins. Ends are data:
        those out of order or out of range count as the nearest that is right. Rows behind the
        last end are zeros.
    """
    groups, tiles, inputs, width = map(int, weights.shape)
    rows = tirx.Cast("int64", x.shape[0])

    def emit(operands: Any, results: Any) -> Any:
        activations, matrices, bounds = (T.buffer_proxy(b) for b in operands)
        result = T.buffer_proxy(results[0])
        with IRBuilder() as builder, T.parallel(0, tirx.const(tiles, "int64")) as tile:
            columns = lanes_from(first_column(tile, width, outputs), width)
            first, end = variable("int64"), variable("int64")
            first[0] = tirx.const(0, "int64")
            with T.serial(0, groups) as group:
                end[0] = tirx.max(tirx.min(tirx.Cast("int64", bounds[group]), rows), first[0])
                with T.serial(0, (end[0] - first[0] + _ROWS - 1) // _ROWS) as block:
                    places = [
                        tirx.min(first[0] + block * _ROWS + i, end[0] - 1) for i in range(_ROWS)
                    ]
                    at = (group, tile, inputs)
                    _multiply((activations, matrices, result), at, places, columns)
                first[0] = end[0]
            with T.serial(0, rows - first[0]) as i:
                result[first[0] + i, columns] = filled(0.0, str(x.dtype), width)
        return builder.get()

    shape = [x.shape[0], tirx.const(outputs, "int64")]
    operands, mark = [x, weights, ends], {OPERATOR: "grouped"}
    return te.extern([shape], operands, emit, "grouped", str(x.dtype), attrs=mark)


def _multiply(buffers: Any, at: Any, places: list[Any], columns: Any) -> None:
    """Emit the products of the rows at ``places``, one of them perhaps several times."""
    activations, matrices, result = buffers
    group, tile, inputs = at
    width = int(matrices.shape[-1])
    whole, wide = lanes_from(0, width), vector_type(FLOAT_SUMS, width)
    sums = [variable(FLOAT_SUMS, width) for _ in places]
    rows = [variable("int64") for _ in places]
    for total, row, place in zip(sums, rows, places, strict=True):
        row[0] = place
        total[whole] = filled(0.0, FLOAT_SUMS, width)
    with T.serial(0, inputs) as k:
        weight = variable(FLOAT_SUMS, width)
        weight[whole] = tirx.Cast(wide, matrices[group, tile, k, whole])
        for total, row in zip(sums, rows, strict=True):
            value = spread(tirx.Cast(FLOAT_SUMS, activations[row[0], k]), width)
            total[whole] = total[whole] + value * weight[whole]
    for total, row in zip(sums, rows, strict=True):
        rounded = vector_type(str(result.dtype), width)
        result[row[0], columns] = tirx.Cast(rounded, total[whole])
