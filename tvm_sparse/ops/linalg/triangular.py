"""Systems of equations with triangular matrices."""

from __future__ import annotations

from typing import Any

from tvm import te, topi
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.ops.tensors.axis import variable


def solve_triangular(a: te.Tensor, b: te.Tensor, *, upper: bool, unit: bool) -> te.Tensor:
    """Return ``x`` with ``a x = b`` by substitution.

    Parameters
    ----------
    a
        [..., n, n]; only the upper or the lower triangle is read, without its diagonal where that
        is ``unit``.
    b
        [..., n, k], with the leading extents and the dtype of ``a``.
    """
    *lead, rows, columns = b.shape
    dtype, lines = str(b.dtype), topi.utils.prod(lead) * columns

    def emit(inputs: Any, outputs: Any) -> Any:
        matrices, sides, result = (T.buffer_proxy(buffer) for buffer in (*inputs, *outputs))
        with IRBuilder() as builder, T.parallel(0, lines) as line:
            matrix, column, total = line // columns, line % columns, variable(dtype)

            def place(i: Any) -> Any:
                return (matrix * rows + i) * columns + column

            with T.serial(0, rows) as step:
                i = rows - 1 - step if upper else step
                first = (matrix * rows + i) * rows
                total[0] = sides[place(i)]
                with T.serial(i + 1 if upper else 0, rows if upper else i) as j:
                    total[0] = total[0] - matrices[first + j] * result[place(j)]
                result[place(i)] = total[0] if unit else total[0] / matrices[first + i]
        return builder.get()

    return te.extern([b.shape], [a, b], emit, name="solve_triangular", dtype=dtype)
