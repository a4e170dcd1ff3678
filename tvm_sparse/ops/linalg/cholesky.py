"""Cholesky factors of matrices."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx, topi
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.ops.ieee import negation
from tvm_sparse.ops.tensors.axis import variable


def cholesky(x: te.Tensor) -> list[te.Tensor]:
    """Return the lower factor ``L`` with ``x = L L^T``, and where there is none.

    Parameters
    ----------
    x
        [..., n, n], floating-point; only the lower triangle is read.

    Returns
    -------
    factors
        [..., n, n], zero above the diagonal.
    info
        [...], int32: the first leading minor that is not positive, counted from one, or zero.
    """
    *lead, extent, _ = x.shape
    dtype = str(x.dtype)

    def emit(inputs: list[tirx.Buffer], outputs: list[tirx.Buffer]) -> Any:
        source, factors, info = (T.buffer_proxy(b) for b in (*inputs, *outputs))
        with IRBuilder() as builder, T.parallel(0, topi.utils.prod(lead)) as matrix:
            total = variable(dtype)

            def place(i: Any, j: Any) -> Any:
                return (matrix * extent + i) * extent + j

            def reduced(i: Any, j: Any) -> None:
                """Set the total to the element less the products of the columns before."""
                total[0] = source[place(i, j)]
                with T.serial(0, j) as k:
                    total[0] = total[0] - factors[place(i, k)] * factors[place(j, k)]

            info[matrix] = 0
            with T.serial(0, extent) as j:
                with T.serial(0, j) as i:
                    factors[place(i, j)] = tirx.const(0, dtype)
                reduced(j, j)
                with T.If(tirx.all(negation(total[0] > 0), info[matrix] == 0)), T.Then():
                    info[matrix] = tirx.Cast("int32", j + 1)
                factors[place(j, j)] = tirx.sqrt(total[0])
                with T.serial(j + 1, extent) as i:
                    reduced(i, j)
                    factors[place(i, j)] = total[0] / factors[place(j, j)]
        return builder.get()

    return te.extern([x.shape, lead], [x], emit, name="cholesky", dtype=[dtype, "int32"])
