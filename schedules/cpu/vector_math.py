"""exp, sigmoid, tanh and erf as polynomials that vectorise, instead of libm once a lane."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import tvm
from tvm import tirx

_fresh = itertools.count()
_active: ContextVar[bool] = ContextVar("vector_math", default=False)


def _dtype(x: Any, scalar: str) -> str:
    """``scalar`` with as many lanes as ``x``."""
    _, _, lanes = str(x.ty.dtype).partition("x")
    return f"{scalar}x{lanes}" if lanes else scalar


def _const(x: Any, value: float, dtype: str = "float32") -> Any:
    """``value`` with as many lanes as ``x``."""
    _, _, lanes = str(x.ty.dtype).partition("x")
    scalar = tirx.const(value, dtype)
    return tirx.Broadcast(scalar, int(lanes)) if lanes else scalar


def _let(value: Any, body: Callable[[Any], Any]) -> Any:
    var = tirx.Var(f"m{next(_fresh)}", str(value.ty.dtype))
    return tirx.Let(var, value, body(var))


def _polynomial(x: Any, coefficients: tuple[float, ...]) -> Any:
    """Horner's rule, highest power first."""
    result = _const(x, coefficients[0])
    for c in coefficients[1:]:
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
        return _polynomial(r, EXP_2) * tirx.reinterpret(_dtype(r, "float32"), bits)

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
    """``v * top(v^2) / bottom(v^2)``, with ``v`` clamped to where the function is flat."""

    def ratio(v: Any) -> Any:
        return _let(v * v, lambda q: v * _polynomial(q, top) / _polynomial(q, bottom))

    return _let(x, lambda v: _let(_clamp(v, -limit, limit), ratio))


def tanh(x: Any) -> Any:
    """Rational approximation, relative error 2.5e-7."""
    top = (
        -2.76076847742355e-16,
        2.00018790482477e-13,
        -8.60467152213735e-11,
        5.12229709037114e-08,
        1.48572235717979e-05,
        6.37261928875436e-04,
        4.89352455891786e-03,
    )
    bottom = (
        1.19825839466702e-06,
        1.18534705686654e-04,
        2.26843463243900e-03,
        4.89352518554385e-03,
    )
    return _odd_rational(x, 9.0, top, bottom)


def erf(x: Any) -> Any:
    """Rational approximation, relative error 3.2e-7."""
    top = (
        -2.72614225801306e-10,
        2.77068142495902e-08,
        -2.10102402082508e-06,
        -5.69250639462346e-05,
        -7.34990630326855e-04,
        -2.95459980854025e-03,
        -1.60960333262415e-02,
    )
    bottom = (
        -1.45660718464996e-05,
        -2.13374055278905e-04,
        -1.68282697438203e-03,
        -7.37332916720468e-03,
        -1.42647390514189e-02,
    )
    return _odd_rational(x, 4.0, top, bottom)


_FUNCTIONS = {"tirx.exp": exp, "tirx.sigmoid": sigmoid, "tirx.tanh": tanh, "tirx.erf": erf}


def _lowering(name: str, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return an intrinsic lowering that is ours inside :func:`vector_math`, TVM's elsewhere."""
    op = tvm.ir.Op.get(name)
    stock = op.get_attr("llvm.FLowerIntrinsic") or op.get_attr("default.FLowerIntrinsic")

    def lower(call: Any) -> Any:
        if _active.get() and str(call.ty.dtype).startswith("float32"):
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
