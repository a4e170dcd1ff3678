"""Orthogonal columns by rotations of pairs (one-sided Jacobi): singular values and vectors."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx, topi
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.ops.tensors.axis import variable

SWEEPS = 30
"""More than enough: a sweep squares the error, and one without a rotation is the last."""

_PRECISION = 1e-15


def orthogonal_columns(x: te.Tensor) -> list[te.Tensor]:
    """Return ``x v`` with orthogonal columns, and the orthogonal ``v``.

    The lengths of the columns are the singular values of ``x``, in no order.

    Parameters
    ----------
    x
        [..., m, n], float64.

    Returns
    -------
    columns
        [..., m, n].
    rotations
        [..., n, n].
    """
    *lead, rows, columns = x.shape
    dtype = str(x.dtype)

    def emit(inputs: Any, outputs: Any) -> Any:
        source, result, rotations = (T.buffer_proxy(b) for b in (*inputs, *outputs))
        with IRBuilder() as builder, T.parallel(0, topi.utils.prod(lead)) as matrix:
            moving = variable("int32")

            def place(i: Any, j: Any) -> Any:
                return (matrix * rows + i) * columns + j

            def turned(i: Any, j: Any) -> Any:
                return (matrix * columns + i) * columns + j

            with T.serial(0, rows * columns) as i:
                result[place(0, i)] = source[place(0, i)]
            with T.serial(0, columns) as i, T.serial(0, columns) as j:
                rotations[turned(i, j)] = tirx.Cast(dtype, i.astype("int64") == j.astype("int64"))
            moving[0] = 1
            with T.serial(0, SWEEPS), T.If(moving[0] > 0), T.Then():
                moving[0] = 0
                with T.serial(0, columns) as p, T.serial(p + 1, columns) as q:
                    _rotate(result, place, rows, rotations, turned, columns, p, q, moving)
        return builder.get()

    shapes = [x.shape, [*lead, columns, columns]]
    return te.extern(shapes, [x], emit, name="orthogonal_columns", dtype=[dtype, dtype])


def _rotate(  # noqa: PLR0917
    result: Any,
    place: Any,
    rows: Any,
    rotations: Any,
    turned: Any,
    columns: Any,
    p: Any,
    q: Any,
    moving: Any,
) -> None:
    """Make the columns ``p`` and ``q`` of ``result`` orthogonal, if they are not."""
    dtype = str(result.dtype)
    one, first, second, both, sine, cosine = (variable(dtype) for _ in range(6))
    first[0] = second[0] = both[0] = tirx.const(0, dtype)
    with T.serial(0, rows) as i:
        first[0] = first[0] + result[place(i, p)] * result[place(i, p)]
        second[0] = second[0] + result[place(i, q)] * result[place(i, q)]
        both[0] = both[0] + result[place(i, p)] * result[place(i, q)]
    limit = tirx.sqrt(first[0]) * tirx.sqrt(second[0]) * _PRECISION
    with T.If(tirx.abs(both[0]) > limit), T.Then():
        moving[0] = 1
        one[0] = (second[0] - first[0]) / (both[0] * 2)
        sine[0] = tirx.const(1, dtype) / (tirx.abs(one[0]) + tirx.sqrt(one[0] * one[0] + 1))
        sine[0] = tirx.Select(one[0] < 0, sine[0] * -1, sine[0])  # the tangent
        cosine[0] = tirx.const(1, dtype) / tirx.sqrt(sine[0] * sine[0] + 1)
        sine[0] = sine[0] * cosine[0]
        for target, at, extent in ((result, place, rows), (rotations, turned, columns)):
            with T.serial(0, extent) as i:
                first[0], second[0] = target[at(i, p)], target[at(i, q)]
                target[at(i, p)] = cosine[0] * first[0] - sine[0] * second[0]
                target[at(i, q)] = sine[0] * first[0] + cosine[0] * second[0]
