"""Remainders of fp32 numbers for all lanes of a vector at once, in float64 inside."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.schedules.cpu.vector_terms import LARGEST, Terms, const, sign, turned, typed

WIDE = "float64"
STEPS = 6
"""A step takes 52 bits from a quotient; one of fp32 numbers has 277."""


def fmod(x: Any, y: Any) -> Any:
    """Return ``x - y * trunc(x / y)``, exactly, with the sign of ``x``; needs a multiply-add.

    What is left after each step is a float64 without an error: it has no more bits than ``x``, and
    none below the last one of ``y``. A quotient may be rounded up, so it may be negative.
    """
    terms = Terms()
    x, y = terms.bind(x), terms.bind(y)
    wide = typed(x, WIDE)
    size = terms.bind(tirx.abs(x))
    divisor = terms.bind(tirx.Cast(wide, tirx.abs(y)))
    left = terms.bind(tirx.Cast(wide, size))
    for _ in range(STEPS):
        quotient = tirx.trunc(left / divisor)
        left = terms.bind(_multiply_add(const(left, 0) - quotient, divisor, left))
    left = tirx.Select(tirx.LT(left, const(left, 0)), left + divisor, left)
    found = tirx.Cast(typed(x, FLOAT_SUMS), left)
    finite = tirx.LE(size, const(x, LARGEST))
    whole = tirx.And(finite, tirx.LT(const(x, LARGEST), tirx.abs(y)))
    return terms.around(turned(tirx.Select(whole, size, found), sign(x)))


def _multiply_add(a: Any, b: Any, c: Any) -> Any:
    return tirx.call_intrin(str(c.ty.dtype), "tirx.fma", a, b, c)
