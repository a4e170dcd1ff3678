"""Positions of the largest and the smallest elements of rows, found in vectors."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax

from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.tensors.axis import elements
from tvm_sparse.ops.tensors.extrema import MAX, MIN
from tvm_sparse.ops.tensors.rows import extreme_position
from tvm_sparse.passes.graph.computed_extents import in_own_symbols
from tvm_sparse.passes.graph.rewrite import Rewriter, call_function, op_name, rewrite, shape_of

_EXTREMES = {"argmax": MAX, "argmin": MIN}


def _lower(rewriter: Rewriter, call: relax.Call) -> Any | None:
    extremum = _EXTREMES.get(op_name(call))
    rows = None if extremum is None else _rows(call)
    if extremum is None or rows is None:
        return None
    x, dtype = call.args[0], str(call.ty.dtype)
    if call.attrs.axis is None:
        x = rewriter.emit(relax.op.reshape(x, rows))
    func = extreme_position(in_own_symbols(rows), FLOAT_SUMS, extremum, dtype)
    ty = relax.TensorType([*rows[:-1], 1], dtype)
    found = call_function(rewriter, func, [x], ty, f"row_{op_name(call)}")
    return relax.op.reshape(rewriter.emit(found), call.ty.shape)


def _rows(call: relax.Call) -> list[Any] | None:
    """Return the extents of the input, as one row if all of it is; ``None`` if no rows are."""
    shape, axis = shape_of(call.args[0]), call.attrs.axis
    if not shape or str(call.args[0].ty.dtype) != FLOAT_SUMS:
        return None
    if any(isinstance(extent, int) and extent == 0 for extent in shape):
        return None
    if axis is not None and int(axis) % len(shape) != len(shape) - 1:
        return None
    rows = [1, elements(shape)] if axis is None else list(shape)
    return None if isinstance(rows[-1], int) and rows[-1] < LANES else rows


@tvm.transform.module_pass(opt_level=0, name="LowerPositions")
class LowerPositions:
    """Find the first extreme element of rows of fp32 tensors by their extremes.

    Rows may be of any extent from a vector's on, or open. Other axes and types keep their
    definition, which compares pairs of value and position.

    before: ``argmax(x: (32, 1000), axis=-1)``
    after:  ``call_tir(row_argmax, (x,))``
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return the lowered module."""
        return rewrite(mod, _lower)
