"""The numbers in what a function stores: read out, and replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm_ffi
from tvm import ir, s_tir, tirx

from tvm_sparse.base.numerics import FLOAT_SUMS, INTEGER_SUMS, is_float
from tvm_sparse.ops.marks import OPERATOR
from tvm_sparse.passes.bytes.quantization import BYTES

WORD = INTEGER_SUMS
"""The type that holds a number of any type."""

_TYPES = (FLOAT_SUMS, INTEGER_SUMS, *BYTES)
"""Of numbers that are looked at."""

_ARITHMETIC = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Min, tirx.Max)
_CHOICE = ir.Op.get("prim.if_then_else")

Change = Callable[[Any], Any]
"""Returns what takes the place of a number."""


def word_of(number: Any) -> int:
    """Return ``number`` as a word; a float by its bits."""
    if is_float(dtype := str(number.ty.dtype)):
        return int(np.dtype(dtype).type(number.value).view(WORD))
    return int(number.value)


def number_at(words: Any, place: int, dtype: str) -> Any:
    """Return the number of ``dtype`` that the tensor ``words`` has at ``place``."""
    word = words[tirx.const(place, "int64")]
    if is_float(dtype):
        return tirx.reinterpret(dtype, word)
    return word if dtype == WORD else tirx.Cast(dtype, word)


def change_numbers(body: Any, change: Change) -> Any:
    """Return the statement ``body`` with other numbers in what it stores, asked for in order.

    Numbers that say *where* are left alone: indices, conditions, and all inside an operator's own
    block, which schedules and tuning records know by what it reads.
    """
    marked: list[Any] = []
    tvm_ffi.structural_walk(body, (s_tir.SBlock, marked.append))
    own: set[Any] = set()
    for block in marked:
        if OPERATOR in block.annotations:
            tvm_ffi.structural_walk(block, (tirx.BufferStore, own.add))

    def stored(store: Any) -> Any:
        if store in own:
            return store
        return tirx.BufferStore(store.buffer, _changed(store.value, change), store.indices)

    return tvm_ffi.structural_map(body, (tirx.BufferStore, stored))


def _changed(expr: Any, change: Change) -> Any:
    """Return ``expr`` with other numbers where values are computed."""

    def inner(e: Any) -> Any:
        return _changed(e, change)

    if isinstance(expr, tirx.FloatImm | tirx.IntImm):
        return change(expr) if str(expr.ty.dtype) in _TYPES else expr
    if isinstance(expr, _ARITHMETIC):
        return type(expr)(inner(expr.a), inner(expr.b))
    if isinstance(expr, tirx.Cast):
        return tirx.Cast(expr.ty.dtype, inner(expr.value))
    if isinstance(expr, tirx.Select):
        return tirx.Select(expr.condition, inner(expr.true_value), inner(expr.false_value))
    if isinstance(expr, ir.Call):
        choice = expr.op.same_as(_CHOICE)
        args = [inner(a) if _is_value(a, i, choice) else a for i, a in enumerate(expr.args)]
        return ir.Call(expr.op, args, expr.attrs, expr.ty_args, expr.span, ret_ty=expr.ty)
    return expr


def _is_value(argument: Any, place: int, choice: bool) -> bool:
    """Whether an argument of a call is a value: floats are, and what is chosen from."""
    dtype = str(getattr(getattr(argument, "ty", None), "dtype", ""))
    return place > 0 if choice else dtype == FLOAT_SUMS
