"""Reductions of whole rows, and of columns side by side, in vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax, te, tirx

from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.tensors.axis import Lines, elements, rows_of
from tvm_sparse.ops.tensors.column_pool import LEAST, MOST_BYTES, column_pool
from tvm_sparse.ops.tensors.extrema import MIN, highest
from tvm_sparse.ops.tensors.line_pool import fits, line_pool
from tvm_sparse.ops.tensors.moments import Rows, variances
from tvm_sparse.ops.tensors.row_pool import MAXIMUM, Pooling, mean
from tvm_sparse.ops.tensors.rows import open_sum
from tvm_sparse.ops.tensors.windows import Shares
from tvm_sparse.passes.bytes.quantization import meaning_of
from tvm_sparse.passes.graph.computed_extents import in_own_symbols
from tvm_sparse.passes.graph.elementwise import ELEMENTWISE
from tvm_sparse.passes.graph.rewrite import Rewriter, call_function, op_name, rewrite, shape_of

_MINIMUM = Pooling(highest, MIN.combine)
_PRODUCT = Pooling(lambda dtype: tirx.const(1, dtype), lambda a, b: a * b)
_SUM = Pooling(lambda dtype: tirx.const(0, dtype), lambda a, b: a + b)
_VARIANCE = "variance"
_ADDED = {"sum": relax.op.sum, "mean": relax.op.mean}
_REDUCTIONS = {"max": MAXIMUM, "min": _MINIMUM, "prod": _PRODUCT, "sum": _SUM}

_SIDE_BY_SIDE, _LONG = 2048, 8
"""Columns that threads can share, and rows that are worth to be added up, where both are few."""

_SHORT = 2048
"""Elements that are added up one by one: a sum of floats loses what each addition rounds."""


def _lower(rewriter: Rewriter, call: relax.Call, threads: int) -> Any | None:
    known = op_name(call) in (*_REDUCTIONS, "mean", _VARIANCE)
    shape = shape_of(call.args[0]) if known else None
    if not shape or str(call.ty.dtype) != FLOAT_SUMS:
        return None
    lines = _lines(shape, call.attrs.axis)
    if lines is None:
        return _open_rows(rewriter, call, shape) if op_name(call) in _ADDED else None
    if op_name(call) in _ADDED:
        found = _of_bytes(rewriter, call, lines, threads)
        if found is not None or (_is_short(lines) and _fuses(rewriter, call.args[0])):
            return found
        if not _is_short(lines) and 1 < lines.after < LEAST:
            return _few_columns(rewriter, call, lines)
    if op_name(call) == _VARIANCE:
        return _variance(rewriter, call, lines)
    return _pooled(rewriter, call, lines)


def _pooled(rewriter: Rewriter, call: relax.Call, lines: Lines) -> Any | None:
    """Return what several vectors of partial results make of rows, or of columns side by side."""
    row, shape = Shares(lines.extent, 1), call.ty.shape.values
    pooling = _pooling(call, lines)
    if lines.after == 1 and fits(row):
        name, define = "row", lambda x: line_pool(x, row, pooling, shape)
    elif lines.after >= LEAST:
        name, define = "column", lambda x: column_pool(x, lines, pooling, shape)
    else:
        return None
    hint = f"{name}_{op_name(call)}"
    return rewriter.builder_.call_te(define, call.args[0], primfunc_name_hint=hint)


def _open_rows(rewriter: Rewriter, call: relax.Call, shape: Sequence[Any]) -> Any | None:
    """Return sums or means over the last axes, of which some are open; producers fuse."""
    axes = _axes(shape, call.attrs.axis)
    first = len(shape) - len(axes)
    if axes != list(range(first, len(shape))):
        return None
    if any(isinstance(extent, int) and extent == 0 for extent in shape):
        return None
    rows, x = [*(shape[:first] or [1]), elements(shape[first:])], call.args[0]
    if isinstance(rows[-1], int):
        return None
    x = x if 0 < first == len(shape) - 1 else rewriter.emit(relax.op.reshape(x, rows))
    func = open_sum(in_own_symbols(rows), FLOAT_SUMS, mean=op_name(call) == "mean")
    ty = relax.TensorType([*rows[:-1], 1], FLOAT_SUMS)
    found = call_function(rewriter, func, [x], ty, f"row_{op_name(call)}")
    return relax.op.reshape(rewriter.emit(found), call.ty.shape)


def _pooling(call: relax.Call, lines: Lines) -> Pooling:
    average = mean([Shares(lines.extent, 1)], counts_borders=False)
    return _REDUCTIONS.get(op_name(call), average)


def _of_bytes(rewriter: Rewriter, call: relax.Call, lines: Lines, threads: int) -> Any | None:
    """Return the sums or means of columns of bytes, which are added up as such."""
    meaning = meaning_of(rewriter, call.args[0])
    if meaning is None or lines.extent > MOST_BYTES:
        return None
    rows = 1 if lines.after >= LEAST else _rows_together(lines)
    joined = Lines(lines.before, lines.extent // rows, rows * lines.after)
    if joined.after < LEAST:
        return None
    shape = call.ty.shape.values if rows == 1 else (lines.before, rows, lines.after)
    found = rewriter.builder_.call_te(
        lambda x: column_pool(
            x, joined, _pooling(call, joined), shape, meaning.scale, threads=threads
        ),
        meaning.bytes,
        primfunc_name_hint=f"column_{op_name(call)}_bytes",
    )
    return found if rows == 1 else _of_rows_together(rewriter, call, found)


def _is_short(lines: Lines) -> bool:
    """Whether a sum may add up its elements one by one, those of a row in each lane of a vector."""
    return lines.extent <= _SHORT * (LANES if lines.after == 1 else 1)


def _few_columns(rewriter: Rewriter, call: relax.Call, lines: Lines) -> Any | None:
    """Return the sums or means of few long columns: of several rows side by side, then of these."""
    rows = _rows_together(lines)
    joined = Lines(lines.before, lines.extent // rows, rows * lines.after)
    if joined.after < LEAST:
        return None
    shape = (lines.before, rows, lines.after)
    found = rewriter.builder_.call_te(
        lambda x: column_pool(x, joined, _pooling(call, joined), shape),
        call.args[0],
        primfunc_name_hint=f"column_{op_name(call)}",
    )
    return _of_rows_together(rewriter, call, found)


def _of_rows_together(rewriter: Rewriter, call: relax.Call, found: Any) -> Any:
    """Return the result of ``call`` from what rows side by side became."""
    total = rewriter.emit(_ADDED[op_name(call)](rewriter.emit(found), [1]))
    return relax.op.reshape(total, call.ty.shape)


def _rows_together(lines: Lines) -> int:
    """Return how many rows of few columns to add up side by side."""
    most = min(_SIDE_BY_SIDE // lines.after, lines.extent // _LONG)
    return max((d for d in range(1, most + 1) if lines.extent % d == 0), default=1)


def _variance(rewriter: Rewriter, call: relax.Call, lines: Lines) -> Any | None:
    if lines.after != 1 or lines.extent < LANES:
        return None

    def define(x: te.Tensor) -> te.Tensor:  # in the symbols of ``x``
        return variances(x, Rows(rows_of(elements(x.shape), lines.extent), lines.extent))

    found = rewriter.builder_.call_te(define, call.args[0], primfunc_name_hint="row_variance")
    return relax.op.reshape(rewriter.emit(found), call.ty.shape)


def _fuses(rewriter: Rewriter, x: relax.Expr) -> bool:
    """Whether a sum may compute its elements itself: then they are never in memory."""
    return op_name(rewriter.resolve(x)) in ELEMENTWISE


def _lines(shape: Sequence[Any], given: Any) -> Lines | None:
    """Return what is reduced as lines along one axis, ``None`` if there are axes in between.

    Also where extents of these axes, or of those behind them, are open, and where one is zero.
    """
    rank, axes = len(shape), _axes(shape, given)
    first, end = axes[0], axes[-1] + 1
    open_ones = [a for a, extent in enumerate(shape) if not isinstance(extent, int)]
    if axes != list(range(first, end)) or max(open_ones, default=-1) >= first:
        return None
    if any(isinstance(extent, int) and extent == 0 for extent in shape):
        return None
    return Lines(*(elements(shape[a:b]) for a, b in ((0, first), (first, end), (end, rank))))


def _axes(shape: Sequence[Any], given: Any) -> list[int]:
    """Return the axes that are reduced, in order."""
    rank = len(shape)
    return sorted({int(a) % rank for a in given}) if given is not None else list(range(rank))


@tvm.transform.module_pass(opt_level=0, name="LowerReductions")
@dataclass(frozen=True)
class LowerReductions:
    """Reduce neighbouring axes of fp32 tensors by several vectors of partial results.

    Extents before these axes may be open, and those of the last axes that sums and means reduce.

    Other axes and types, short rows and few columns keep their definition. Sums of element-wise
    results do, too: they compute them on the fly. Columns of bytes are added up as whole numbers.

    before: ``max(x: (32, 1000), axis=-1)``
    after:  ``call_tir(row_max, (x,))``
    """

    threads: int = 1

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return the lowered module."""
        return rewrite(mod, lambda rewriter, call: _lower(rewriter, call, self.threads))
