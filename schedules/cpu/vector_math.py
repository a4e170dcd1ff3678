"""exp, sigmoid, tanh and erf as polynomials that vectorise, instead of libm once a lane."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import Any

import tvm
from tvm import tirx

from tvm_sparse.numerics import FLOAT_SUMS

_fresh = itertools.count()
_active: ContextVar[bool] = ContextVar("vector_math", default=False)


def _dtype(x: Any, scalar: str) -> str:
    """``scalar`` with as many lanes as ``x``."""
    _, _, lanes = str(x.ty.dtype).partition("x")
    return f"{scalar}x{lanes}" if lanes else scalar


def _const(x: Any, value: float, dtype: str = FLOAT_SUMS) -> Any:
    """``value`` with as many lanes as ``x``."""
    _, _, lanes = str(x.ty.dtype).partition("x")
    scalar = tirx.const(value, dtype)
    return tirx.Broadcast(scalar, int(lanes)) if lanes else scalar


def _let(value: Any, body: Callable[[Any], Any]) -> Any:
    var = tirx.Var(f"m{next(_fresh)}", str(value.ty.dtype))
    return tirx.Let(var, value, body(var))


def _polynomial(x: Any, coefficients: tuple[float, ...]) -> Any:
    """Horner's rule, highest power first."""
    first, *others = coefficients
    return _horner(x, _const(x, first), others)


def _monic(x: Any, coefficients: tuple[float, ...]) -> Any:
    """Do so behind a highest power of factor 1: an addition, which has a port of its own."""
    first, *others = coefficients
    return _horner(x, x + _const(x, first), others)


def _horner(x: Any, result: Any, coefficients: Iterable[float]) -> Any:
    for c in coefficients:
        result = result * x + _const(x, c)
    return result


def _clamp(x: Any, low: float, high: float) -> Any:
    """``x`` within ``[low, high]``, NaN if it is NaN: a failed comparison yields the second."""
    return tirx.max(_const(x, low), tirx.min(_const(x, high), x))


LOG2_E = 1.44269504088896341
LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440e-4
EXP_LOW, EXP_HIGH = -87.3, 88.8
EXP_2 = (0.0027628867, 0.016737594, 0.08333679, 0.3333304, 0.99999987, 2.0, 2.0)
"""Minimax polynomial of ``2 exp(r)`` for ``|r| <= 0.347``: relative error 3.1e-9."""

BIASED = 126.0
ROUND = 1.5 * 2.0**23 + BIASED
"""Added to a small number, leaves it rounded, plus ``BIASED``, in the low bits."""


def exp(x: Any) -> Any:
    """``2 exp(r) * 2**(n - 1)`` with ``x = n ln 2 + r``: 1 ulp.

    The range is that of ``n``: bits of ``2**-127`` are zero, so that results below 1.7e-38
    become zero; beyond the largest fp32 the product overflows to infinity. ``2**(n - 1)``,
    because ``2**128`` is no fp32.
    """

    def scaled(shifted: Any, r: Any) -> Any:
        bits = tirx.shift_left(
            tirx.reinterpret(_dtype(r, "uint32"), shifted), _const(r, 23, "uint32")
        )
        return _polynomial(r, EXP_2) * tirx.reinterpret(_dtype(r, FLOAT_SUMS), bits)

    def remainder(c: Any, n: Any) -> Any:
        return c - n * _const(c, LN2_HIGH) - n * _const(c, LN2_LOW)

    def reduced(c: Any) -> Any:
        def split(shifted: Any) -> Any:
            rest = _let(shifted - _const(c, ROUND), lambda n: remainder(c, n))
            return _let(rest, lambda r: scaled(shifted, r))

        return _let(c * _const(c, LOG2_E) + _const(c, ROUND), split)

    return _let(x, lambda v: _let(_clamp(v, EXP_LOW, EXP_HIGH), reduced))


def sigmoid(x: Any) -> Any:
    """``1 / (1 + exp(-x))``."""
    return _const(x, 1.0) / (_const(x, 1.0) + exp(_const(x, 0.0) - x))


def _odd_rational(x: Any, limit: float, top: tuple[float, ...], bottom: tuple[float, ...]) -> Any:
    """``v * top(v^2) / bottom(v^2)``, with ``v`` clamped to where the function is flat.

    ``bottom`` is without its leading 1.
    """

    def ratio(v: Any) -> Any:
        return _let(v * v, lambda q: v * _polynomial(q, top) / _monic(q, bottom))

    return _let(x, lambda v: _let(_clamp(v, -limit, limit), ratio))


def tanh(x: Any) -> Any:
    """Rational approximation, relative error 2.9e-7."""
    top = (
        -2.30398425724e-10,
        1.66924589365e-07,
        -7.1809816317e-05,
        4.2747850657e-02,
        12.3990148018,
        531.823462879,
        4083.86419882,
    )
    bottom = (98.9224913543, 1893.10973538, 4083.86472177)
    return _odd_rational(x, 9.0, top, bottom)


def erf(x: Any) -> Any:
    """Rational minimax approximation: relative error 4.4e-8, with rounding 3.3e-7."""
    top = (
        2.23364373123e-05,
        -2.14893128085e-03,
        0.15121160753,
        3.84575772504,
        54.4832306461,
        213.10290459,
        1229.3754304,
    )
    bottom = (15.2453401205, 123.350626213, 552.02449429, 1089.50565631)
    return _odd_rational(x, 3.87, top, bottom)


_FUNCTIONS = {"tirx.exp": exp, "tirx.sigmoid": sigmoid, "tirx.tanh": tanh, "tirx.erf": erf}


def _lowering(name: str, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return an intrinsic lowering that is ours inside :func:`vector_math`, TVM's elsewhere."""
    op = tvm.ir.Op.get(name)
    stock = op.get_attr("llvm.FLowerIntrinsic") or op.get_attr("default.FLowerIntrinsic")

    def lower(call: Any) -> Any:
        if _active.get() and str(call.ty.dtype).startswith(FLOAT_SUMS):
            return function(call.args[0])
        return stock(call) if stock is not None else call

    return lower


@functools.cache
def _register() -> None:
    for name, function in _FUNCTIONS.items():
        rule = _lowering(name, function)
        tirx.op.register_intrin_lowering(name, "llvm", f=rule, level=99)


@contextlib.contextmanager
def vector_math() -> Iterator[None]:
    """Build fp32 exp, sigmoid, tanh and erf as polynomials; NaN and infinities stay right.

    TVM keeps one lowering an intrinsic for the whole process; outside this context, and in other
    threads, the registered one hands over to TVM's own.
    """
    _register()
    token = _active.set(True)
    try:
        yield
    finally:
        _active.reset(token)
