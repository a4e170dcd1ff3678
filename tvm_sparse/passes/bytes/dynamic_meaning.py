"""Bytes whose scale and zero point are computed when the network runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from tvm import relax

from tvm_sparse.base.numerics import FLOAT_SUMS, INTEGER_SUMS
from tvm_sparse.passes.bytes.quantization import BYTES, behind_casts, meaning_of, with_number
from tvm_sparse.passes.bytes.row_numbers import number_in
from tvm_sparse.passes.graph.rewrite import Rewriter, op_name, same_shape, shape_of

_LAYOUTS = ("reshape", "permute_dims")
"""Operators that only move data, whatever moves."""


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


def dynamic_meaning_of(rewriter: Rewriter, expr: Any) -> DynamicMeaning | None:
    """Return what ``expr`` is the meaning of: ``multiply(astype(subtract(q, zero)), size)``."""
    call = rewriter.resolve(expr)
    if op_name(call) in _LAYOUTS:
        return _moved_meaning(rewriter, call)
    if op_name(call) != "multiply" or str(call.ty.dtype) != FLOAT_SUMS:
        return None
    size, centred = call.args[1], rewriter.resolve(call.args[0])
    if op_name(centred) != "astype" or not _of_rows(size, shape_of(call)):
        return None
    found = centred_bytes(rewriter, centred.args[0])
    if found is None or not same_shape(shape_of(found[0]), shape_of(call)):
        return None
    return DynamicMeaning(found[0], size, found[1])


def means_bytes(rewriter: Rewriter, expr: Any) -> bool:
    """Whether ``expr`` is what bytes mean, cast to halves or not."""
    expr, _ = behind_casts(rewriter, expr)
    return bool(meaning_of(rewriter, expr) or dynamic_meaning_of(rewriter, expr))


def centred_bytes(rewriter: Rewriter, expr: Any) -> tuple[Any, Any] | None:
    """Return the bytes ``q`` and what means zero in ``subtract(astype(q, int32), zero)``.

    The zero is as in :class:`DynamicMeaning`.
    """
    call, zero = rewriter.resolve(expr), cast("Any", 0)
    if op_name(call) in _LAYOUTS:
        inner = centred_bytes(rewriter, call.args[0])
        numbers = None if inner is None else _moved(rewriter, call, [inner[1]])
        return (_like(rewriter, call, inner[0]), *numbers) if inner and numbers else None
    if op_name(call) == "subtract" and str(call.ty.dtype) == INTEGER_SUMS:
        if not _of_rows(call.args[1], shape_of(call)):
            return None
        found = number_in(rewriter.resolve, call.args[1])
        zero = call.args[1] if found is None else int(found)
        expr = call.args[0]
        call = rewriter.resolve(expr)
    if op_name(call) == "astype" and str(call.ty.dtype) == INTEGER_SUMS:
        expr = call.args[0]
    if isinstance(zero, int):
        expr, above = _signed(rewriter, expr)
        zero -= above
    dtype = str(expr.ty.dtype)
    if dtype not in BYTES:
        return None
    limits = np.iinfo(dtype)
    known = isinstance(zero, int)
    return (expr, zero) if not known or limits.min <= zero <= limits.max else None


def _signed(rewriter: Rewriter, expr: Any) -> tuple[Any, int]:
    """Return signed bytes, and how far ``expr`` is above them: unsigned ones may be 128 higher.

    So torchao makes operands of the instruction that multiplies unsigned bytes with signed ones.
    """
    call, above = rewriter.resolve(expr), -int(np.iinfo(np.int8).min)
    if op_name(call) != "astype" or str(call.ty.dtype) != "uint8":
        return expr, 0
    wide, shift = with_number(rewriter, call.args[0], "add") or (call, 0)
    signed = _widened(rewriter, wide) if shift == above else None
    return (expr, 0) if signed is None else (signed, above)


def _widened(rewriter: Rewriter, expr: Any) -> Any | None:
    """Return the signed bytes that ``expr`` is, in 32 bits."""
    call = rewriter.resolve(expr)
    if op_name(call) != "astype" or str(call.ty.dtype) != INTEGER_SUMS:
        return None
    return call.args[0] if str(call.args[0].ty.dtype) == "int8" else None


def is_one(number: Any) -> bool:
    """Whether a number of :class:`DynamicMeaning` is one for the whole tensor."""
    if isinstance(number, int):
        return True
    found = shape_of(number)
    return found is not None and all(e == 1 for e in found)


def _of_rows(number: Any, shape: Any) -> bool:
    """Whether ``number`` is one, or one for each row of a tensor of ``shape``."""
    found = shape_of(number)
    if found is None or shape is None:
        return False
    return all(e == 1 for e in found) or same_shape(found, [*shape[:-1], 1])


def _moved_meaning(rewriter: Rewriter, call: relax.Call) -> DynamicMeaning | None:
    """Return the meaning of what ``call`` moves."""
    meaning = dynamic_meaning_of(rewriter, call.args[0])
    if meaning is None:
        return None
    numbers = _moved(rewriter, call, [meaning.size, meaning.zero])
    if numbers is None:
        return None
    return DynamicMeaning(_like(rewriter, call, meaning.bytes), *numbers)


def _moved(rewriter: Rewriter, call: relax.Call, numbers: list[Any]) -> tuple[Any, ...] | None:
    """Return the numbers of a tensor that ``call`` moves; ``None`` if their rows fall apart."""
    before, after = shape_of(call.args[0]), shape_of(call)
    if all(is_one(number) for number in numbers):
        return tuple(numbers)
    if op_name(call) != "reshape" or not before or not after or before[-1] != after[-1]:
        return None
    shape = [*after[:-1], 1]
    return tuple(n if is_one(n) else rewriter.emit(relax.op.reshape(n, shape)) for n in numbers)


def _like(rewriter: Rewriter, call: relax.Call, values: Any) -> Any:
    """Move ``values`` as ``call`` moves its operand."""
    return rewriter.emit(relax.Call(call.op, [values, *call.args[1:]], call.attrs, call.ty_args))
