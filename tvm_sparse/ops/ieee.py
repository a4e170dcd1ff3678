"""Floating-point expressions that keep IEEE 754's values of NaN, infinities and signed zeros.

TVM's simplifier treats floats as real numbers: ``x * 0``, ``0 / x``, ``x - x`` and ``(x + y) - y``
lose NaN and rounding, ``x != x`` is false and ``not (x < y)`` becomes ``y <= x``. Its code for
``!=`` is an ordered comparison, and its ``max`` and ``min`` return the second operand where one is
NaN. The forms below mean what PyTorch means, pass the simplifier unchanged, and cost nothing: LLVM
sees through them. Operands of other types take TVM's own expressions.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.ir import Expr

from tvm_sparse.base.numerics import FLOAT_SUMS


def is_float(x: Expr) -> bool:
    """Whether ``x`` is a floating-point expression, of any width and number of lanes."""
    return "float" in str(x.ty.dtype)


def let(value: Expr, body: Callable[[Any], Any]) -> Any:
    """Return ``body(value)`` with ``value`` written, and computed, once.

    TVM cannot bind a variable of bfloat16: such a value is written at each use.
    """
    if str(value.ty.dtype).startswith("bfloat16"):
        return body(value)
    var = tirx.Var("v", str(value.ty.dtype))
    return tirx.Let(var, value, body(var))


def zero(dtype: str) -> Any:
    """Return a zero that the simplifier does not take for one: a root, which compilers fold."""
    return tirx.sqrt(tirx.const(0, dtype))


def negation(condition: Any) -> Any:
    """Return ``not condition``, true where a comparison in it has met a NaN."""
    return tirx.Select(condition, tirx.const(False, "bool"), tirx.const(True, "bool"))


def is_number(x: Expr) -> Any:
    """Whether ``x``, a variable, is anything but NaN."""
    return tirx.LE(x, x)


def equal(a: Expr, b: Expr) -> Any:
    """Return ``a == b``."""
    if not is_float(a):
        return tirx.EQ(*as_integers(a, b))
    return let(a, lambda v: let(b, lambda w: tirx.And(v <= w, w <= v)))


def not_equal(a: Expr, b: Expr) -> Any:
    """Return ``a != b``, true if one is NaN."""
    return negation(equal(a, b)) if is_float(a) else tirx.NE(*as_integers(a, b))


def as_integers(*operands: Any) -> list[Any]:
    """Return booleans and unsigned numbers as signed ones, which compare alike.

    The simplifier would turn comparisons of booleans into ``not``, and subtract unsigned numbers
    to compare them.
    """
    dtypes = {str(x.ty.dtype) for x in operands}
    if len(dtypes) > 1:
        return list(operands)
    return [_SIGNED.get(dtype, lambda x: x)(x) for dtype in dtypes for x in operands]


def _of_longest(x: Expr) -> Any:
    """Return a uint64 less 2^63."""
    return tirx.bitwise_xor(tirx.Cast("int64", x), tirx.min_value("int64"))


_SIGNED: dict[str, Callable[[Any], Any]] = {
    "bool": functools.partial(tirx.Cast, "int8"),
    "uint32": functools.partial(tirx.Cast, "int64"),
    "uint64": _of_longest,
}


def subtract(a: Expr, b: Expr) -> Any:
    """Return ``a - b``."""
    return _opaque(a) + b * tirx.const(-1, str(b.ty.dtype)) if is_float(a) else a - b


def multiply(a: Expr, b: Expr) -> Any:
    """Return ``a * b``."""
    return _opaque(a) * _opaque(b)


def divide(a: Expr, b: Expr) -> Any:
    """Return ``a / b``."""
    return tirx.Div(_opaque(a), _opaque(b)) if is_float(a) else tirx.div(a, b)


def _opaque(x: Expr) -> Any:
    """Return ``x``, or another form of it if it is the number zero."""
    is_zero = isinstance(x, tirx.FloatImm) and x.value == 0 and math.copysign(1, x.value) > 0
    return zero(str(x.ty.dtype)) if is_zero else x


def largest(a: Expr, b: Expr) -> Any:
    """Return the larger of two values, NaN if one is NaN; ``a`` may be a number."""
    return _extreme(a, b, tirx.max, lambda x, y: y < x)


def smallest(a: Expr, b: Expr) -> Any:
    """Return the smaller of two values, NaN if one is NaN; ``a`` may be a number."""
    return _extreme(a, b, tirx.min, lambda x, y: x < y)


def _extreme(a: Expr, b: Expr, plain: Callable[..., Any], beats: Callable[..., Any]) -> Any:
    if not is_float(a):
        return plain(a, b)
    if isinstance(b, tirx.FloatImm):
        a, b = b, a
    if isinstance(a, tirx.FloatImm) and not math.isnan(a.value):
        # A comparison with NaN fails. This is one instruction: x86's return the second operand.
        # TVM's own code for half precision does so on every target, without a vector of conditions.
        half = "16" in str(a.ty.dtype)
        return plain(a, b) if half else let(b, lambda w: tirx.Select(beats(a, w), a, w))

    def chosen(v: Any, w: Any) -> Any:
        return tirx.Select(is_number(v), tirx.Select(beats(v, w), v, w), v)

    return let(a, lambda v: let(b, lambda w: chosen(v, w)))


def _in_single_precision(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Give half precision operands to ``function`` as fp32: CUDA has no remainder of them."""

    @functools.wraps(function)
    def wrapped(a: Expr, b: Expr) -> Any:
        dtype = str(a.ty.dtype)
        if dtype not in ("float16", "bfloat16"):
            return function(a, b)
        return function(a.astype(FLOAT_SUMS), b.astype(FLOAT_SUMS)).astype(dtype)

    return wrapped


@_in_single_precision
def remainder(a: Expr, b: Expr) -> Any:
    """Return ``a - trunc(a / b) * b`` of floats as C's ``fmod`` gives it, with the sign of ``a``.

    TVM's analyzer takes its own remainder for one of integers where the divisor follows from an
    open extent, and then fails.
    """
    return tirx.call_intrin(str(a.ty.dtype), "tirx.fmod", a, b)


@_in_single_precision
def floor_mod(a: Expr, b: Expr) -> Any:
    """Return ``a - floor(a / b) * b`` as C's ``fmod`` gives it, with the sign of ``b``."""
    if not is_float(a):
        return tirx.floormod(a, b)

    # ``b`` is not bound: what a variable of a function stands for is unknown when it is lowered.
    return let(remainder(a, b), lambda rest: tirx.Select(_differ_in_sign(rest, b), rest + b, rest))


@_in_single_precision
def floor_divide(a: Expr, b: Expr) -> Any:
    """Return ``floor(a / b)`` without the rounding of ``a / b``.

    A division by zero is not rounded down, a quotient of zero has the sign of ``a / b``. An
    infinite ``a`` gives NaN. PyTorch does all three.
    """
    if not is_float(a):
        return tirx.floordiv(a, b)
    dtype = str(a.ty.dtype)
    none, half, one = zero(dtype), tirx.const(0.5, dtype), tirx.const(1, dtype)

    def whole(n: Expr, d: Expr, rest: Any) -> Any:
        quotient = divide(subtract(n, rest), d)
        lower = tirx.Select(_differ_in_sign(rest, d), subtract(quotient, one), quotient)
        return let(lower, lambda q: let(tirx.floor(q), lambda f: nearest(n, d, q, f)))

    def nearest(n: Expr, d: Expr, q: Any, f: Any) -> Any:
        rounded = tirx.Select(half < subtract(q, f), f + one, f)
        return tirx.Select(tirx.And(q <= none, none <= q), multiply(divide(n, d), none), rounded)

    def quotient(n: Expr, d: Expr) -> Any:
        by_zero = tirx.And(d <= none, none <= d)
        return tirx.Select(by_zero, divide(n, d), let(remainder(n, d), lambda r: whole(n, d, r)))

    return let(_opaque(a), lambda n: let(b, lambda d: quotient(n, d)))


@_in_single_precision
def power(a: Expr, b: Expr) -> Any:
    """Return ``a ** b``."""
    dtype = str(a.ty.dtype)
    if isinstance(b, tirx.FloatImm) and b.value >= _WARNED:
        b = tirx.call_intrin(dtype, "tirx.fabs", b)
    return tirx.call_intrin(dtype, "tirx.pow", a, b)


_WARNED = 3
"""From this exponent on TVM's log tells users to write products."""


def _differ_in_sign(a: Expr, b: Expr) -> Any:
    """Whether one is negative and the other positive."""
    none = zero(str(a.ty.dtype))
    return tirx.Or(tirx.And(a < none, none < b), tirx.And(none < a, b < none))
