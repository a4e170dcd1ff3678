"""Quotients, divisors, powers and shifts of integers, with PyTorch's values at the edges."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tvm import te, tirx
from tvm.ir import Expr
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.ops.ieee import equal, let
from tvm_sparse.ops.tensors.axis import variable


def quotient(divide: Callable[[Any, Any], Any], a: Expr, b: Expr) -> Any:
    """Return ``divide(a, b)`` of whole numbers, zero where ``b`` is zero.

    A processor ends the process on a division by zero, and on that of the least number by -1,
    whose result is itself.
    """
    return _guarded(divide, a, b, lambda value, divisor: value * divisor)


def remainder(divide: Callable[[Any, Any], Any], a: Expr, b: Expr) -> Any:
    """Return the remainder ``divide(a, b)`` of whole numbers, zero where ``b`` is zero."""
    return _guarded(divide, a, b, lambda value, divisor: tirx.const(0, str(value.ty.dtype)))


def _guarded(
    divide: Callable[[Any, Any], Any], a: Expr, b: Expr, special: Callable[[Any, Any], Any]
) -> Any:
    """Return ``divide(a, b)``, or ``special(a, b)`` where ``b`` is 0 or -1.

    ``special`` does not ask which of the two: TVM's analysis of a variable that a condition sets
    equal to a number fails where the variable's value turns out to be a constant.
    """
    dtype = str(a.ty.dtype)
    if isinstance(b, tirx.IntImm) and int(b) not in (0, -1):
        return divide(a, b)
    if dtype.startswith("uint64"):
        return _of_longest(divide, a, b)
    if dtype.startswith("u"):  # TVM's bounds of unsigned variables in a branch are negative
        wide = _guarded(divide, a.astype("int64"), b.astype("int64"), special)
        return wide.astype(dtype)

    def guarded(value: Expr, divisor: Any) -> Any:
        # A branch: of a selection, both sides are computed.
        risky = tirx.And(tirx.const(-2, dtype) < divisor, divisor < tirx.const(1, dtype))
        # No zero as TVM sees it: of a divisor that vanishes, it simplifies both sides.
        safe = tirx.Select(divisor < 1, tirx.min(divisor, tirx.const(-1, dtype)), divisor)
        return tirx.if_then_else(risky, special(value, divisor), divide(value, safe))

    return let(a, lambda value: let(b, lambda divisor: guarded(value, divisor)))


def _of_longest(divide: Callable[[Any, Any], Any], a: Expr, b: Expr) -> Any:
    """Return ``divide(a, b)`` of uint64, which no wider type holds; zero where ``b`` is zero."""
    dtype = str(a.ty.dtype)
    none, one = tirx.const(0, dtype), tirx.const(1, dtype)

    def chosen(divisor: Any) -> Any:
        return tirx.Select(divisor < one, none, divide(a, tirx.max(divisor, one)))

    return let(b, chosen)


def negative(x: Expr) -> Any:
    """Return ``-x`` modulo the range of its type."""
    dtype = str(x.ty.dtype)
    return tirx.bitwise_not(x) + tirx.const(1, dtype) if dtype.startswith("u") else -x


def sign(x: Expr) -> Any:
    """Return 1, 0 or -1 with the sign of ``x``."""
    dtype = str(x.ty.dtype)
    least = tirx.const(0 if dtype.startswith("u") else -1, dtype)
    return tirx.max(tirx.min(x, tirx.const(1, dtype)), least)


def is_cut(before: str, after: str) -> bool:
    """Whether some integer of the type ``before`` is none of ``after``; uint64 is left out."""
    if not all("int" in dtype and dtype != "uint64" for dtype in (before, after)):
        return False
    loses_sign = after.startswith("u") and not before.startswith("u")
    return loses_sign or _value_bits(before) > _value_bits(after)


def cut(dtype: str, x: Expr) -> Any:
    """Return the last bits of ``x`` as a ``dtype``; of a number, the simplifier finds them."""
    wide = str(x.ty.dtype)
    if wide.startswith("u") or _bits(wide) <= _bits(dtype):
        x, wide = tirx.Cast("int64", x), "int64"
    last = tirx.bitwise_and(x, tirx.const((1 << _bits(dtype)) - 1, wide))
    if dtype.startswith("u"):
        return tirx.Cast(dtype, last)
    sign = tirx.const(1 << _bits(dtype) - 1, wide)
    return tirx.Cast(dtype, tirx.bitwise_xor(last, sign) - sign)


def _bits(dtype: str) -> int:
    return int(dtype.lstrip("uint"))


def _value_bits(dtype: str) -> int:
    """Return the bits of an integer type without that of the sign."""
    return _bits(dtype) - (not dtype.startswith("u"))


def power(x: te.Tensor, exponent: te.Tensor) -> te.Tensor:
    """Return ``x ** exponent`` of tensors of one shape, modulo the range of their integer type.

    By squares. A negative exponent leaves only powers of one and minus one.
    """
    dtype = str(x.dtype)

    def emit(inputs: Any, outputs: Any) -> Any:
        bases, exponents, results = (T.buffer_proxy(b) for b in (*inputs, *outputs))
        with IRBuilder() as builder, T.parallel(0, math.prod(x.shape)) as i:
            result, factor, rest = (variable(dtype) for _ in range(3))
            result[0], factor[0] = tirx.const(1, dtype), bases[i]
            rest[0] = exponents[i]
            if not dtype.startswith("u"):
                with T.If(rest[0] < 0), T.Then():
                    # The inverse of minus one is itself, that of larger numbers is cut to zero.
                    inverse = tirx.Select(factor[0] == -1, factor[0], tirx.const(0, dtype))
                    factor[0] = tirx.Select(factor[0] == 1, factor[0], inverse)
                    rest[0] = rest[0] * -1
            with T.serial(0, _bits(dtype)), T.If(rest[0] > 0), T.Then():
                with T.If(tirx.bitwise_and(rest[0], tirx.const(1, dtype)) == 1), T.Then():
                    result[0] = result[0] * factor[0]
                factor[0] = factor[0] * factor[0]
                rest[0] = tirx.shift_right(rest[0], tirx.const(1, dtype))
            results[i] = result[0]
        return builder.get()

    return te.extern([x.shape], [x, exponent], emit, name="power", dtype=dtype)


def common_divisor(x: te.Tensor, other: te.Tensor) -> te.Tensor:
    """Return the greatest common divisor of tensors of one shape, by Euclid's algorithm."""
    dtype = str(x.dtype)

    def emit(inputs: Any, outputs: Any) -> Any:
        first, second, results = (T.buffer_proxy(b) for b in (*inputs, *outputs))
        with IRBuilder() as builder, T.parallel(0, math.prod(x.shape)) as i:
            divisor, rest, kept = (variable(dtype) for _ in range(3))
            divisor[0], rest[0] = first[i], second[i]
            with T.While(rest[0] != 0):
                kept[0] = remainder(tirx.truncmod, divisor[0], rest[0])
                divisor[0], rest[0] = rest[0], kept[0]
            results[i] = divisor[0] if dtype.startswith("u") else tirx.abs(divisor[0])
        return builder.get()

    return te.extern([x.shape], [x, other], emit, name="common_divisor", dtype=dtype)


def shift(x: te.Tensor, by: te.Tensor, *, left: bool) -> te.Tensor:
    """Return ``x`` shifted by ``by`` bits; by no sensible number, nothing but its sign is left."""
    dtype = str(x.dtype)
    bits = _bits(dtype)

    def moved(*place: Any) -> Any:
        value, distance = x(*place), by(*place)
        # Numbers fold as bounds do: no shift by a distance outside is ever seen.
        kept = tirx.min(tirx.max(distance, tirx.const(0, dtype)), tirx.const(bits - 1, dtype))
        inside, none = equal(distance, kept), tirx.const(0, dtype)
        if left:
            return tirx.Select(inside, tirx.shift_left(value, kept), none)
        sign = (
            none if dtype.startswith("u") else tirx.shift_right(value, tirx.const(bits - 1, dtype))
        )
        return tirx.Select(inside, tirx.shift_right(value, kept), sign)

    return te.compute(x.shape, moved, name="shift")
