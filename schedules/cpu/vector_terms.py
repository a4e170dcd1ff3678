"""Terms of functions that are written out for all lanes of a vector at once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

from tvm import tirx

from tvm_sparse.base.numerics import vector_type

_fresh = itertools.count()


def typed(x: Any, scalar: str) -> str:
    """Return the type ``scalar`` with as many lanes as ``x``."""
    return vector_type(scalar, int(x.ty.dtype.lanes))


def const(x: Any, value: float, dtype: str | None = None) -> Any:
    """Return ``value`` with as many lanes as ``x``, of its type if there is no other."""
    own, _, lanes = str(x.ty.dtype).partition("x")
    scalar = tirx.const(value, dtype or own)
    return tirx.Broadcast(scalar, int(lanes)) if lanes else scalar


def let(value: Any, body: Callable[[Any], Any]) -> Any:
    """Return ``body`` of a variable that holds ``value``."""
    var = tirx.Var(f"m{next(_fresh)}", str(value.ty.dtype))
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
