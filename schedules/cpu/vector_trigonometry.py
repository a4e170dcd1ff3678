"""Circular functions of fp32 numbers and their inverses, for all lanes of a vector at once.

Angles of any size are reduced exactly; results are off by two units in the last place at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tvm import tirx

from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.schedules.cpu.vector_terms import (
    BITS,
    SIGN,
    Terms,
    const,
    polynomial,
    sign,
    turned,
    typed,
)

WIDE, WIDE_BITS = "float64", "uint64"

ROUND = 1.5 * 2.0**52
"""Added to a small float64, leaves it rounded in the low bits."""


TWO_OVER_PI = tuple(
    map(
        float.fromhex,
        (
            "0x1.45f306dp-1",
            "0x1.9391054p-30",
            "0x1.4fe13abp-59",
            "0x1.d1f534dp-88",
            "0x1.b81b6c5p-117",
            "0x1.5993c43p-148",
        ),
    )
)
"""``2 / pi`` in parts of 29 bits: products of one with an fp32 number are exact in float64.

What they lack is below 2e-16 quarter turns even for the largest angle.
"""

SINE = (-0.00019517298882448718, 0.00833217814523272, -0.1666665494368183)
"""Minimax polynomial of ``(sin(r) / r - 1) / r^2`` in ``r^2`` for ``|r| <= pi / 4``."""

COSINE = (2.4438451418490613e-05, -0.0013887367513998946, 0.04166664686640098)
"""Minimax polynomial of ``(cos(r) - 1 + r^2 / 2) / r^4`` in ``r^2`` for ``|r| <= pi / 4``."""

ARC_SINE = (
    0.042218566544139795,
    0.024147601098028132,
    0.04547709886188302,
    0.07495241769787135,
    0.16666753927985944,
)
"""Minimax polynomial of ``(asin(a) / a - 1) / a^2`` in ``a^2`` for ``|a| <= 1/2``."""

ARC_TANGENT = (
    0.002974586553496842,
    -0.016581168823858593,
    0.04355351507738499,
    -0.07580576116325854,
    0.10678939361701749,
    -0.1421420890732351,
    0.19994137178188207,
    -0.33333166964941646,
)
"""Minimax polynomial of ``(atan(a) / a - 1) / a^2`` in ``a^2`` for ``|a| <= 1``."""


def sin(x: Any) -> Any:
    """Return the sine of ``x`` radians."""

    def of(odd: Any, half: Any, sine: Any, cosine: Any) -> Any:
        return turned(tirx.Select(odd, cosine, sine), half ^ sign(x))

    return _of_angle(x, of)


def cos(x: Any) -> Any:
    """Return the cosine of ``x`` radians."""

    def of(odd: Any, half: Any, sine: Any, cosine: Any) -> Any:
        return turned(tirx.Select(odd, sine, cosine), half ^ _sign_if(odd, x))

    return _of_angle(x, of)


def tan(x: Any) -> Any:
    """Return the tangent of ``x`` radians."""

    def of(odd: Any, half: Any, sine: Any, cosine: Any) -> Any:
        del half
        ratio = tirx.Select(odd, cosine, sine) / tirx.Select(odd, sine, cosine)
        return turned(ratio, sign(x) ^ _sign_if(odd, x))

    return _of_angle(x, of)


def asin(x: Any) -> Any:
    """Return the angle in radians whose sine is ``x``: NaN beyond ``[-1, 1]``."""
    terms = Terms()
    x = terms.bind(x)
    large, angle = _arc_sine(terms, x)
    size = tirx.Select(large, const(x, math.pi / 2) - const(x, 2) * angle, angle)
    return terms.around(turned(size, sign(x)))


def acos(x: Any) -> Any:
    """Return the angle in radians whose cosine is ``x``: NaN beyond ``[-1, 1]``."""
    terms = Terms()
    x = terms.bind(x)
    large, angle = _arc_sine(terms, x)
    double = terms.bind(const(x, 2) * angle)
    steep = tirx.Select(tirx.LT(x, const(x, 0)), const(x, math.pi) - double, double)
    flat = const(x, math.pi / 2) - turned(angle, sign(x))
    return terms.around(tirx.Select(large, steep, flat))


def atan(x: Any) -> Any:
    """Return the angle in radians whose tangent is ``x``."""
    terms = Terms()
    x = terms.bind(x)
    size = terms.bind(tirx.abs(x))
    steep = tirx.LT(const(x, 1), size)
    angle = _arc_tangent(terms, tirx.Select(steep, const(x, 1) / size, size))
    angle = tirx.Select(steep, const(x, math.pi / 2) - angle, angle)
    return terms.around(turned(angle, sign(x)))


def atan2(y: Any, x: Any) -> Any:
    """Return the angle in radians of the point ``(x, y)``, zeros and infinities as in C."""
    terms = Terms()
    y, x = terms.bind(y), terms.bind(x)
    rise, run = terms.bind(tirx.abs(y)), terms.bind(tirx.abs(x))
    steep = tirx.LT(run, rise)
    ratio = tirx.Select(steep, run, rise) / tirx.Select(steep, rise, run)
    ratio = tirx.Select(tirx.EQ(rise, run), const(x, 1), ratio)  # two infinities
    ratio = tirx.Select(tirx.LE(rise, const(x, 0)), rise, ratio)  # two zeros
    angle = _arc_tangent(terms, ratio)
    angle = terms.bind(tirx.Select(steep, const(x, math.pi / 2) - angle, angle))
    left = tirx.NE(sign(x), const(x, 0, BITS))
    angle = tirx.Select(left, const(x, math.pi) - angle, angle)
    angle = tirx.Select(tirx.EQ(x, x), angle, x)
    return terms.around(turned(angle, sign(y)))


def _of_angle(x: Any, of: Callable[[Any, Any, Any, Any], Any]) -> Any:
    """Return what ``of`` makes of ``|x|``, taken apart into quarter turns and ``|r| <= pi / 4``.

    It gets whether the quarters are odd, the sign bit of half turns, and sine and cosine of ``r``.
    """
    terms = Terms()
    x = terms.bind(x)
    quarters, rest = _quarters(terms, x)
    r = terms.bind(rest)
    q = terms.bind(r * r)
    sine = terms.bind(r + r * q * polynomial(q, SINE))
    cosine = terms.bind(const(q, 1) - (q * const(q, 0.5) - q * q * polynomial(q, COSINE)))
    odd = tirx.NE(tirx.bitwise_and(quarters, const(x, 1, BITS)), const(x, 0, BITS))
    half = tirx.shift_left(tirx.bitwise_and(quarters, const(x, 2, BITS)), const(x, 30, BITS))
    return terms.around(of(odd, half, sine, cosine))


def _quarters(terms: Terms, x: Any) -> tuple[Any, Any]:
    """Return quarter turns in ``|x|``, as bits of which the last two are right, and the rest.

    Each product, in whole turns, is exact; so is what is left of it behind the point.
    """
    wide = terms.bind(tirx.Cast(typed(x, WIDE), tirx.abs(x)))
    parts = []
    for part in TWO_OVER_PI:
        turns = terms.bind(wide * const(wide, part / 4))
        parts.append(terms.bind(turns - tirx.nearbyint(turns)))
    first, second, *others = parts
    tail = terms.bind(sum(others, second))
    shifted = terms.bind((first + tail) * const(wide, 4) + const(wide, ROUND))
    whole = (shifted - const(wide, ROUND)) * const(wide, 0.25)
    rest = (first - whole) + tail
    angle = tirx.Cast(typed(x, FLOAT_SUMS), rest * const(wide, 2 * math.pi))
    bits = tirx.Cast(typed(x, BITS), tirx.reinterpret(typed(x, WIDE_BITS), shifted))
    return terms.bind(bits), angle


def _arc_sine(terms: Terms, x: Any) -> tuple[Any, Any]:
    """Return whether ``|x| > 1/2``, and ``asin(|x|)``, or then ``asin(sqrt((1 - |x|) / 2))``."""
    size = terms.bind(tirx.abs(x))
    large = tirx.LT(const(x, 0.5), size)
    low = const(x, 0.5) - const(x, 0.5) * size
    q = terms.bind(tirx.Select(large, low, size * size))
    a = terms.bind(tirx.Select(large, tirx.sqrt(q), size))
    return large, terms.bind(a + a * q * polynomial(q, ARC_SINE))


def _arc_tangent(terms: Terms, a: Any) -> Any:
    """Return ``atan(a)`` for ``0 <= a <= 1``."""
    a = terms.bind(a)
    q = terms.bind(a * a)
    return terms.bind(a + a * q * polynomial(q, ARC_TANGENT))


def _sign_if(condition: Any, x: Any) -> Any:
    return tirx.Select(condition, const(x, SIGN, BITS), const(x, 0, BITS))
