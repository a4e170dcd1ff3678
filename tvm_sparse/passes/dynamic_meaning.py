"""Bytes whose scale and zero point are computed when the network runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import relax

from tvm_sparse.numerics import FLOAT_SUMS, INTEGER_SUMS
from tvm_sparse.passes.quantisation import BYTES
from tvm_sparse.passes.rewrite import Rewriter, op_name, shape_of
from tvm_sparse.passes.row_numbers import number_in


@dataclass(frozen=True)
class DynamicMeaning:
    """A tensor of ``bytes`` and what they mean.

    Parameters
    ----------
    bytes
        A tensor of bytes.
    size
        What one step means: a tensor of one number, or of one a row.
    zero
        The bytes that mean zero, 32 bits each: a number for all, or a tensor like ``size``.
    """

    bytes: Any
    size: Any
    zero: Any


def dynamic_meaning_of(sweep: Rewriter, expr: Any) -> DynamicMeaning | None:
    """Return what ``expr`` is the meaning of: ``multiply(astype(subtract(q, zero)), size)``."""
    call = sweep.resolve(expr)
    if op_name(call) == "reshape":
        return _reshaped(sweep, call)
    if op_name(call) != "multiply" or str(call.ty.dtype) != FLOAT_SUMS:
        return None
    size, centred = call.args[1], sweep.resolve(call.args[0])
    if op_name(centred) != "astype" or not _of_rows(size, shape_of(call)):
        return None
    values, zero = _without_zero(sweep, centred.args[0])
    if str(values.ty.dtype) not in BYTES or shape_of(values) != shape_of(call):
        return None
    return DynamicMeaning(values, size, zero)


def _without_zero(sweep: Rewriter, expr: Any) -> tuple[Any, Any]:
    """``subtract(astype(q, int32), zero)`` --> ``q`` and ``zero``."""
    call = sweep.resolve(expr)
    zero: Any = 0
    if op_name(call) == "subtract" and str(call.ty.dtype) == INTEGER_SUMS:
        if not _of_rows(call.args[1], shape_of(call)):
            return expr, 0
        found = number_in(sweep.resolve, call.args[1])
        zero = call.args[1] if found is None else int(found)
        expr = call.args[0]
        call = sweep.resolve(expr)
    if op_name(call) == "astype" and str(call.ty.dtype) == INTEGER_SUMS:
        expr = call.args[0]
    return expr, zero


def _of_rows(number: Any, shape: Any) -> bool:
    """Whether ``number`` is one, or one for each row of a tensor of ``shape``."""
    found = shape_of(number)
    if found is None or shape is None:
        return False
    return all(e == 1 for e in found) or (len(found) == len(shape) and found == [*shape[:-1], 1])


def _reshaped(sweep: Rewriter, call: relax.Call) -> DynamicMeaning | None:
    """Return the meaning of bytes whose rows are numbered otherwise."""
    before, after = shape_of(call.args[0]), shape_of(call)
    if not before or not after or before[-1] != after[-1]:
        return None
    meaning = dynamic_meaning_of(sweep, call.args[0])
    if meaning is None:
        return None

    def moved(number: Any) -> Any:
        found = shape_of(number) if isinstance(number, relax.Expr) else None
        if found is None or all(e == 1 for e in found):
            return number
        return sweep.emit(relax.op.reshape(number, [*after[:-1], 1]))

    values = sweep.emit(relax.op.reshape(meaning.bytes, call.args[1]))
    return DynamicMeaning(values, moved(meaning.size), moved(meaning.zero))
