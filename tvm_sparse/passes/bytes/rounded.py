"""Rounding to bytes, as front ends write it."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax

from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.passes.bytes.quantization import quantize, with_number
from tvm_sparse.passes.bytes.row_numbers import number_in
from tvm_sparse.passes.graph.rewrite import Rewriter, op_name


def rounded(rewriter: Rewriter, call: relax.Call, dtype: str) -> Any | None:
    """``astype(minimum(maximum(add(round(x), zero), low), high))`` --> ``quantize(x, zero)``."""
    if op_name(call) != "astype":
        return None
    above = with_number(rewriter, call.args[0], "minimum")
    below = above and with_number(rewriter, above[0], "maximum")
    if not above or not below:
        return None
    steps, zero = _above(rewriter, below[0])
    whole, limits = rewriter.resolve(steps), np.iinfo(dtype)
    low, high = below[1], above[1]
    inside = limits.min <= low <= high <= limits.max and limits.min <= zero <= limits.max
    if op_name(whole) != "round" or not inside or zero != int(zero):
        return None
    counted = whole.args[0]
    if str(counted.ty.dtype) != FLOAT_SUMS:
        counted = rewriter.emit(relax.op.astype(counted, FLOAT_SUMS))
    if low > limits.min:
        counted = rewriter.emit(relax.op.maximum(counted, relax.const(low - zero, FLOAT_SUMS)))
    if high < limits.max:
        counted = rewriter.emit(relax.op.minimum(counted, relax.const(high - zero, FLOAT_SUMS)))
    return quantize(counted, int(zero), dtype)


def _above(rewriter: Rewriter, expr: Any) -> tuple[Any, float]:
    """Return the operand of an addition of a number, or of a tensor filled with it; the number."""
    call = rewriter.resolve(expr)
    found = number_in(rewriter.resolve, call.args[1]) if op_name(call) == "add" else None
    return (expr, 0.0) if found is None else (call.args[0], float(found))
