"""Terms of functions that are written out for all lanes of a vector at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tvm_ffi
from tvm import tirx

from tvm_sparse.base.numerics import FLOAT_SUMS, vector_type

LARGEST = 3.4028234663852886e38
"""Of fp32 numbers."""

BITS, SIGN = "uint32", 1 << 31
"""What an fp32 number is read as, and the bit of its sign there."""


def typed(x: Any, scalar: str) -> str:
    """Return the type ``scalar`` with as many lanes as ``x``."""
    return vector_type(scalar, int(x.ty.dtype.lanes))


def const(x: Any, value: float, dtype: str | None = None) -> Any:
    """Return ``value`` with as many lanes as ``x``, of its type if there is no other."""
    own, _, lanes = str(x.ty.dtype).partition("x")
    scalar = tirx.const(value, dtype or own)
    return tirx.Broadcast(scalar, int(lanes)) if lanes else scalar


def let(value: Any, body: Callable[[Any], Any]) -> Any:
    """Return ``body`` of a variable that holds ``value``, or of ``value`` if it is one.

    TVM's analysis fails on a variable that is bound to another more than once.
    """
    if isinstance(value, tirx.Var):
        return body(value)
    var = tirx.Var("m", str(value.ty.dtype))
    return tirx.Let(var, value, body(var))


def polynomial(x: Any, coefficients: tuple[float, ...]) -> Any:
    """Return a polynomial by Horner's rule, highest power first."""
    first, *others = coefficients
    return _horner(x, const(x, first), others)


def monic(x: Any, coefficients: tuple[float, ...]) -> Any:
    """Do so behind a highest power of factor 1: an addition, which has a port of its own."""
    first, *others = coefficients
    return _horner(x, x + const(x, first), others)


def _horner(x: Any, result: Any, coefficients: Iterable[float]) -> Any:
    for c in coefficients:
        result = result * x + const(x, c)
    return result


def clamp(x: Any, low: float, high: float) -> Any:
    """Return ``x`` within ``[low, high]``, or NaN: a failed comparison yields the second."""
    return tirx.max(const(x, low), tirx.min(const(x, high), x))


def sign(x: Any) -> Any:
    """Return the bit of the sign of an fp32 number, all others zero."""
    return tirx.bitwise_and(tirx.reinterpret(typed(x, BITS), x), const(x, SIGN, BITS))


def turned(x: Any, by: Any) -> Any:
    """Return an fp32 number, its sign turned where ``by`` has that bit."""
    bits = tirx.bitwise_xor(tirx.reinterpret(typed(x, BITS), x), by)
    return tirx.reinterpret(typed(x, FLOAT_SUMS), bits)


class Terms:
    """Values that are computed once each, in order: one chain of bindings.

    TVM visits a binding's value more than once, and writes it out for each use in its analysis.
    """

    def __init__(self) -> None:
        self._bound: dict[Any, Any] = {}

    def bind(self, value: Any) -> Any:
        """Return a variable that holds ``value``, or ``value`` if it is one."""
        if isinstance(value, tirx.Var):
            return value
        var = tirx.Var("m", str(value.ty.dtype))
        self._bound[var] = value
        return var

    def around(self, result: Any) -> Any:
        """Return ``result`` with all that is bound."""
        for var, value in reversed(self._bound.items()):
            result = tirx.Let(var, value, result)
        return result


def written_out(expr: Any) -> int:
    """Return how many variables ``expr`` has if each that is bound in it is its value."""
    sizes: dict[Any, int] = {}

    def size(part: Any) -> int:
        while isinstance(part, tirx.Let):
            sizes[part.var] = size(part.value)
            part = part.body
        total = 0

        def see(var: Any) -> None:
            nonlocal total
            total += sizes.get(var, 1)

        tvm_ffi.structural_walk(part, (tirx.Var, see))
        return total

    return size(expr)
