"""LU factors of matrices with partial pivoting, as LAPACK's ``getrf`` gives them."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx, topi
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.ops.linalg.steps import fewest
from tvm_sparse.ops.tensors.axis import variable


def lu_factors(x: te.Tensor) -> list[te.Tensor]:
    """Return the factors of matrices, the pivots and where they fail.

    Parameters
    ----------
    x
        [..., m, n], floating-point.

    Returns
    -------
    factors
        [..., m, n]: U, and below its diagonal L without its diagonal of ones.
    pivots
        [..., min(m, n)], int32: row ``i`` was swapped with row ``pivots[i]``, counted from one.
    info
        [...], int32: the first pivot that is zero, counted from one, or zero.
    """
    *lead, rows, columns = x.shape
    count, steps, dtype = topi.utils.prod(lead), fewest(rows, columns), str(x.dtype)

    def emit(inputs: Any, outputs: Any) -> Any:
        source, factors, pivots, info = (T.buffer_proxy(b) for b in (*inputs, *outputs))
        with IRBuilder() as builder, T.parallel(0, count) as matrix:
            largest, factor, kept = (variable(dtype) for _ in range(3))
            pivot = variable("int32")

            def place(i: Any, j: Any) -> Any:
                return (matrix * rows + i) * columns + j

            with T.serial(0, rows * columns) as i:
                factors[place(0, i)] = source[place(0, i)]
            info[matrix] = 0
            with T.serial(0, steps) as k:
                largest[0], pivot[0] = tirx.const(-1, dtype), tirx.Cast("int32", k)
                with T.serial(k, rows) as i:
                    size = tirx.abs(factors[place(i, k)])
                    with T.If(largest[0] < size), T.Then():
                        largest[0], pivot[0] = size, tirx.Cast("int32", i)
                pivots[matrix * steps + k] = pivot[0] + 1
                with T.serial(0, columns) as j:
                    kept[0] = factors[place(k, j)]
                    factors[place(k, j)] = factors[place(pivot[0], j)]
                    factors[place(pivot[0], j)] = kept[0]
                with T.If(tirx.all(largest[0] <= 0, info[matrix] == 0)), T.Then():
                    info[matrix] = tirx.Cast("int32", k + 1)
                with T.If(largest[0] > 0), T.Then(), T.serial(k + 1, rows) as i:
                    factor[0] = factors[place(i, k)] / factors[place(k, k)]
                    factors[place(i, k)] = factor[0]
                    with T.serial(k + 1, columns) as j:
                        factors[place(i, j)] = (
                            factors[place(i, j)] - factor[0] * factors[place(k, j)]
                        )
        return builder.get()

    shapes = [x.shape, [*lead, steps], lead]
    return te.extern(shapes, [x], emit, name="lu_factors", dtype=[dtype, "int32", "int32"])


def permutation(pivots: te.Tensor, rows: int) -> te.Tensor:
    """Return the order of ``rows`` rows, int64 [..., rows], after the swaps of LU's pivots."""
    *lead, steps = pivots.shape

    def emit(inputs: Any, outputs: Any) -> Any:
        swaps, order = T.buffer_proxy(inputs[0]), T.buffer_proxy(outputs[0])
        with IRBuilder() as builder, T.parallel(0, topi.utils.prod(lead)) as matrix:
            kept, other = variable("int64"), variable("int64")
            with T.serial(0, rows) as i:
                order[matrix * rows + i] = tirx.Cast("int64", i)
            with T.serial(0, steps) as k:
                other[0] = matrix * rows + tirx.Cast("int64", swaps[matrix * steps + k]) - 1
                kept[0] = order[matrix * rows + k]
                order[matrix * rows + k] = order[other[0]]
                order[other[0]] = kept[0]
        return builder.get()

    return te.extern([[*lead, rows]], [pivots], emit, name="permutation", dtype="int64")
