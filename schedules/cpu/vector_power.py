"""Powers of fp32 numbers for all lanes of a vector at once, in float64 inside."""

from __future__ import annotations

import math
from typing import Any

from tvm import tirx

from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.schedules.cpu.vector_terms import LARGEST, clamp, const, let, polynomial, typed

WIDE, BITS = "float64", "uint64"
MANTISSA, BIAS = 52, 1023
"""Bits of a float64's mantissa, and what is added to its exponent."""

ROOT_HALF = 0x3FE6A09E667F3BCD
"""The bits of ``sqrt(1/2)``: mantissas are made to lie between it and its double."""

LIFT = 1 << 10
"""What is added to exponents on top, so that none is negative."""

WHOLE, WHOLE_BITS = 2.0**MANTISSA, (BIAS + MANTISSA) << MANTISSA
"""From here to its double, the low bits of a float64 are a whole number; its own bits."""

ROUND = 1.5 * WHOLE + BIAS
"""Added to a small number, leaves it rounded, plus ``BIAS``, in the low bits."""

LOG_2 = (
    0.3407244732457489,
    0.4116731241243495,
    0.5770835753093734,
    0.9617966734266834,
    2.8853900817898857,
)
"""Minimax polynomial of ``log2((1 + s) / (1 - s)) / s`` in ``s^2`` for ``|s| <= 0.1716``."""

EXP_2 = (
    0.00015345811998993854,
    0.001339993153769431,
    0.009618488959917345,
    0.055503287761835246,
    0.2402264689058201,
    0.6931472057376232,
    1.0000000005541767,
)
"""Minimax polynomial of ``2**r`` for ``|r| <= 0.5``."""

FARTHEST = 200.0
"""Powers of two beyond it are zero or infinite in fp32."""


def power(x: Any, y: Any) -> Any:
    """Return ``2**(y log2 |x|)``, with the sign of an odd power: 0.51 ulp.

    The edges are those of C. One to any power and anything to the power of zero are one, even NaN.
    Zeros and infinities have all powers, other negative numbers only whole ones.
    """
    return let(x, lambda base: let(y, lambda exponent: _signed(base, exponent)))


def _signed(x: Any, y: Any) -> Any:
    half = y * const(y, 0.5)
    whole, even = tirx.LE(y, tirx.floor(y)), tirx.LE(half, tirx.floor(half))
    negative = tirx.reinterpret(typed(x, "int32"), x) < const(x, 0, "int32")
    finite = tirx.LE(const(x, -LARGEST), x)
    some = tirx.LT(x, const(x, 0))

    def signed(size: Any) -> Any:
        lost = tirx.Select(finite, tirx.Select(some, const(x, math.nan), size), size)
        turned = tirx.Select(even, size, size * const(x, -1))
        return tirx.Select(negative, tirx.Select(whole, turned, lost), size)

    return let(_size(x, y), signed)


def _size(x: Any, y: Any) -> Any:
    """Return ``|x| ** |y|``, and its sign's power of ``y``."""
    wide = typed(x, WIDE)
    exponent = tirx.Cast(wide, y)

    def product(logarithm: Any) -> Any:
        zero = const(logarithm, 0)
        none = [tirx.LE(tirx.abs(factor), zero) for factor in (exponent, logarithm)]
        found = tirx.Select(none[1], zero, logarithm * exponent)  # not 0 * infinity
        return _exp2(tirx.Select(none[0], zero, found))

    size = let(tirx.Cast(wide, tirx.abs(x)), lambda a: let(_log2(a), product))
    return tirx.Cast(typed(x, FLOAT_SUMS), size)


def _log2(a: Any) -> Any:
    """Return the logarithm of a float64 with a value of fp32: relative error 4e-12."""
    one = const(a, 1)
    bits = tirx.reinterpret(typed(a, BITS), a)

    def split(lifted: Any) -> Any:
        """``lifted`` is the exponent."""
        rest = bits + const(lifted, LIFT << MANTISSA) - (lifted << const(lifted, MANTISSA))
        number = tirx.reinterpret(
            typed(a, WIDE), tirx.bitwise_or(lifted, const(lifted, WHOLE_BITS))
        )
        n = number - const(a, WHOLE + LIFT)
        return let(tirx.reinterpret(typed(a, WIDE), rest), lambda m: of_mantissa(n, m))

    def of_mantissa(n: Any, m: Any) -> Any:
        return let(
            (m - one) / (m + one), lambda s: n + s * let(s * s, lambda q: polynomial(q, LOG_2))
        )

    shift = const(a, (LIFT << MANTISSA) - ROOT_HALF, BITS)
    found = let((bits + shift) >> const(a, MANTISSA, BITS), split)
    found = tirx.Select(tirx.LE(a, const(a, LARGEST)), found, a)
    return tirx.Select(tirx.LE(a, const(a, 0)), const(a, -math.inf), found)


def _exp2(x: Any) -> Any:
    """Return ``2**x``, a float64: relative error 2e-9."""

    def scaled(shifted: Any, r: Any) -> Any:
        bits = tirx.reinterpret(typed(r, BITS), shifted) << const(r, MANTISSA, BITS)
        return polynomial(r, EXP_2) * tirx.reinterpret(typed(r, WIDE), bits)

    def split(c: Any) -> Any:
        def remainder(shifted: Any) -> Any:
            whole = shifted - const(c, ROUND)
            return let(let(whole, lambda n: c - n), lambda r: scaled(shifted, r))

        return let(c + const(c, ROUND), remainder)

    return let(clamp(x, -FARTHEST, FARTHEST), split)
