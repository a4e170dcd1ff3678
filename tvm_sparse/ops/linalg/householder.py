"""QR factors of matrices by reflections, as LAPACK's ``geqrf`` and ``orgqr`` give them."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx, topi
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.ops.linalg.steps import fewest
from tvm_sparse.ops.tensors.axis import variable


def reflections(x: te.Tensor) -> list[te.Tensor]:
    """Return R, below its diagonal the reflections that lead to it, and their factors.

    Parameters
    ----------
    x
        [..., m, n], floating-point.

    Returns
    -------
    factors
        [..., m, n]; reflection ``k`` is ``1 - scales[k] v v^T`` with ``v[k] = 1`` and the rest of
        ``v`` below the diagonal of column ``k``.
    scales
        [..., min(m, n)].
    """
    *lead, rows, columns = x.shape
    count, steps, dtype = topi.utils.prod(lead), fewest(rows, columns), str(x.dtype)

    def emit(inputs: list[tirx.Buffer], outputs: list[tirx.Buffer]) -> Any:
        source, factors, scales = (T.buffer_proxy(b) for b in (*inputs, *outputs))
        with IRBuilder() as builder, T.parallel(0, count) as matrix:
            first, below, norm = (variable(dtype) for _ in range(3))

            def place(i: Any, j: Any) -> Any:
                return (matrix * rows + i) * columns + j

            with T.serial(0, rows * columns) as i:
                factors[place(0, i)] = source[place(0, i)]
            with T.serial(0, steps) as k:
                scale = matrix * steps + k
                below[0] = tirx.const(0, dtype)
                with T.serial(k + 1, rows) as i:
                    below[0] = below[0] + factors[place(i, k)] * factors[place(i, k)]
                first[0] = factors[place(k, k)]
                scales[scale] = tirx.const(0, dtype)
                with T.If(tirx.any(below[0] < 0, below[0] > 0)), T.Then():
                    norm[0] = tirx.sqrt(first[0] * first[0] + below[0])
                    norm[0] = tirx.Select(first[0] < 0, norm[0], norm[0] * -1)
                    scales[scale] = (norm[0] - first[0]) / norm[0]
                    factors[place(k, k)] = norm[0]
                    with T.serial(k + 1, rows) as i:
                        factors[place(i, k)] = factors[place(i, k)] / (first[0] - norm[0])
                    with T.serial(k + 1, columns) as j:
                        _reflect(factors, k, scales[scale], factors, j, place, rows)
        return builder.get()

    shapes = [x.shape, [*lead, steps]]
    return te.extern(shapes, [x], emit, name="reflections", dtype=[dtype, dtype])


def reflected(factors: te.Tensor, scales: te.Tensor) -> te.Tensor:
    """Return the first columns of the product of the reflections, as many as ``factors`` has."""
    *lead, rows, columns = factors.shape
    steps, dtype = scales.shape[-1], str(factors.dtype)

    def emit(inputs: list[tirx.Buffer], outputs: list[tirx.Buffer]) -> Any:
        vectors, weights, result = (T.buffer_proxy(b) for b in (*inputs, *outputs))
        with IRBuilder() as builder, T.parallel(0, topi.utils.prod(lead) * columns) as line:
            matrix, j = line // columns, line % columns

            def place(i: Any, j: Any) -> Any:
                return (matrix * rows + i) * columns + j

            with T.serial(0, rows) as i:
                result[place(i, j)] = tirx.Cast(dtype, i.astype("int64") == j.astype("int64"))
            with T.serial(0, steps) as step:
                k = steps - 1 - step
                weight = weights[matrix * steps + k]
                _reflect(vectors, k, weight, result, j, place, rows)
        return builder.get()

    return te.extern([factors.shape], [factors, scales], emit, name="reflected", dtype=dtype)


def _reflect(  # noqa: PLR0917
    vectors: Any, k: Any, scale: Any, target: Any, j: Any, place: Any, rows: Any
) -> None:
    """Apply the reflection in column ``k`` of ``vectors`` to column ``j`` of ``target``."""
    product = variable(str(target.dtype))
    product[0] = target[place(k, j)]
    with T.serial(k + 1, rows) as i:
        product[0] = product[0] + vectors[place(i, k)] * target[place(i, j)]
    product[0] = product[0] * scale
    target[place(k, j)] = target[place(k, j)] - product[0]
    with T.serial(k + 1, rows) as i:
        target[place(i, j)] = target[place(i, j)] - product[0] * vectors[place(i, k)]
