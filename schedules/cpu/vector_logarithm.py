"""Logarithms of fp32 numbers for all lanes of a vector at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tvm import tirx

from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.schedules.cpu.vector_exponentials import LN2_HIGH, LN2_LOW
from tvm_sparse.schedules.cpu.vector_terms import (
    LARGEST,
    Terms,
    const,
    polynomial,
    sign,
    turned,
    typed,
)

SIGNED = "int32"
MANTISSA = 23
ROOT_HALF = 0x3F3504F3
"""The bits of ``sqrt(1/2)``: mantissas are made to lie between it and its double."""

LARGE = 2.0**30
"""Its square is an fp32 number, beside which one does not count."""

SMALLEST = 2.0**-126
"""Of fp32 numbers whose mantissa is whole."""

LOG = (
    -0.07859611510588548,
    0.12881647494445914,
    -0.1312875480068754,
    0.14181191937952145,
    -0.16624554043641124,
    0.2000228627494547,
    -0.2500081040514634,
    0.33333316725817047,
)
"""Minimax polynomial of ``(log(1 + r) - r + r^2 / 2) / r^3``; ``1 + r`` within ``sqrt(2)`` of 1."""


def log(x: Any) -> Any:
    """Return the natural logarithm: 1 ulp. Of zero it is ``-inf``, of negative numbers NaN."""
    terms = Terms()
    return terms.around(_log(terms, terms.bind(x)))


def log10(x: Any) -> Any:
    """Return the decimal logarithm: 2 ulp."""
    terms = Terms()
    natural = terms.bind(_log(terms, terms.bind(x)))
    # The constant in two parts, the first with so few bits that its error is in the second.
    high, low = 0.434294462, math.log10(math.e) - 0.434294462
    return terms.around(natural * const(natural, high) + natural * const(natural, low))


def log1p(x: Any) -> Any:
    """Return ``log(1 + x)``, right for small numbers, too: 2 ulp."""
    terms = Terms()
    return terms.around(_log1p(terms, terms.bind(x), _log))


def atanh(x: Any) -> Any:
    """Return the number whose hyperbolic tangent is ``x``: NaN beyond ``[-1, 1]``."""
    terms = Terms()
    x = terms.bind(x)
    size = terms.bind(tirx.abs(x))
    twice = terms.bind(const(x, 2) * size / (const(x, 1) - size))
    found = const(x, 0.5) * _log1p(terms, twice, _log)
    return terms.around(turned(found, sign(x)))


def asinh(x: Any) -> Any:
    """Return the number whose hyperbolic sine is ``x``."""
    terms = Terms()
    x = terms.bind(x)
    size = terms.bind(tirx.abs(x))
    q = terms.bind(size * size)
    rest = size + q / (const(x, 1) + tirx.sqrt(q + const(x, 1)))
    return terms.around(turned(_doubled(terms, size, rest), sign(x)))


def acosh(x: Any) -> Any:
    """Return the positive number whose hyperbolic cosine is ``x``: NaN below 1."""
    terms = Terms()
    above = terms.bind(x - const(x, 1))
    rest = above + tirx.sqrt(above) * tirx.sqrt(above + const(x, 2))
    return terms.around(_doubled(terms, above, rest))


def _doubled(terms: Terms, size: Any, rest: Any) -> Any:
    """Return ``log(1 + rest)``; where ``size`` is large, ``rest`` is twice of it."""
    large = tirx.LT(const(size, LARGE), size)
    found = _log1p(terms, terms.bind(tirx.Select(large, size, rest)), _log)
    return found + tirx.Select(large, const(size, math.log(2)), const(size, 0))


def log1p_of_few_terms(x: Any) -> Any:
    """Return ``log(1 + x)`` with LLVM's logarithm, which is the C library's for each lane."""

    def natural(_terms: Terms, u: Any) -> Any:
        return tirx.call_llvm_pure_intrin(str(u.ty.dtype), "llvm.log", u)

    terms = Terms()
    return terms.around(_log1p(terms, terms.bind(x), natural))


def _log1p(terms: Terms, x: Any, natural: Callable[[Terms, Any], Any]) -> Any:
    one = const(x, 1)
    u = terms.bind(one + x)
    lost = (x - (u - one)) / u
    found = terms.bind(natural(terms, u))
    inner = tirx.And(tirx.LT(const(x, 0), u), tirx.LE(u, const(x, LARGEST)))
    return terms.bind(tirx.Select(inner, found + lost, found))


def _log(terms: Terms, x: Any) -> Any:
    tiny = tirx.LT(x, const(x, SMALLEST))
    lifted = tirx.Select(tiny, x * const(x, 2.0**MANTISSA), x)
    bits = terms.bind(tirx.reinterpret(typed(x, SIGNED), lifted))
    exponent = tirx.shift_right(bits - const(x, ROOT_HALF, SIGNED), const(x, MANTISSA, SIGNED))
    exponent = terms.bind(exponent)
    mantissa = bits - tirx.shift_left(exponent, const(x, MANTISSA, SIGNED))
    r = terms.bind(tirx.reinterpret(typed(x, FLOAT_SUMS), mantissa) - const(x, 1))
    n = tirx.Cast(typed(x, FLOAT_SUMS), exponent)
    n = terms.bind(n - tirx.Select(tiny, const(x, MANTISSA), const(x, 0)))
    q = terms.bind(r * r)
    rest = terms.bind(r * q * polynomial(r, LOG) + n * const(x, LN2_LOW))
    found = (r + (rest - q * const(x, 0.5))) + n * const(x, LN2_HIGH)
    found = tirx.Select(tirx.LE(x, const(x, LARGEST)), found, x)  # infinity and NaN are their own
    found = tirx.Select(tirx.LE(x, const(x, 0)), const(x, -math.inf), found)
    return terms.bind(tirx.Select(tirx.LT(x, const(x, 0)), const(x, math.nan), found))
