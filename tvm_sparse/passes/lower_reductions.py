"""Largest and smallest elements and products of whole rows, in vectors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax, tirx

from tvm_sparse.numerics import FLOAT_SUMS
from tvm_sparse.ops.extrema import MIN, highest
from tvm_sparse.ops.line_pool import fits, line_pool
from tvm_sparse.ops.row_pool import MAXIMUM, Pooling
from tvm_sparse.ops.windows import Shares
from tvm_sparse.passes.rewrite import Rewriter, op_name, rewrite, static_shape

_MINIMUM = Pooling(highest, MIN.combine)
_PRODUCT = Pooling(lambda dtype: tirx.const(1, dtype), lambda a, b: a * b)
_REDUCTIONS = {"max": MAXIMUM, "min": _MINIMUM, "prod": _PRODUCT}


def _lower(sweep: Rewriter, call: relax.Call) -> Any | None:
    pooling = _REDUCTIONS.get(op_name(call))
    shape = static_shape(call.args[0]) if pooling else None
    if pooling is None or not shape or str(call.ty.dtype) != FLOAT_SUMS:
        return None
    rank, given = len(shape), call.attrs.axis
    axes = range(rank) if given is None else sorted({int(a) % rank for a in given})
    first = rank - len(axes)
    row = Shares(math.prod(shape[first:]), 1)
    if list(axes) != list(range(first, rank)) or 0 in shape or not fits(row):
        return None
    rows = sweep.emit(relax.op.reshape(call.args[0], [math.prod(shape[:first]), row.extent]))
    reduced = sweep.builder_.call_te(
        lambda x: line_pool(x, row, pooling), rows, primfunc_name_hint=f"row_{op_name(call)}"
    )
    return relax.op.reshape(sweep.emit(reduced), call.ty.shape)


@tvm.transform.module_pass(opt_level=0, name="LowerReductions")
@dataclass(frozen=True)
class LowerReductions:
    """Reduce the last axes of fp32 tensors by several vectors of partial results.

    Other axes and types, and short rows, keep their definition.

    before: ``max(x: (32, 1000), axis=-1)``
    after:  ``reshape(call_tir(row_max, (x,)), (32,))``
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return the lowered module."""
        return rewrite(mod, _lower)
