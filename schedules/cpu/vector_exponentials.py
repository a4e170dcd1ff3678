"""exp, sigmoid, tanh and erf of fp32 numbers for all lanes of a vector at once."""

from __future__ import annotations

import math
from typing import Any

import tvm
from tvm import tirx

from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.machine.registry import rounds_once
from tvm_sparse.schedules.cpu.vector_terms import clamp, const, let, monic, polynomial, typed

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

    Multiples of ``ln 2`` are subtracted in two parts; products with the first are exact. One is
    enough for a difference, which is off by 20 times as much itself, where a multiply-add rounds
    once.
    """
    enough = isinstance(x, tirx.Sub) and rounds_once(tvm.target.Target.current())
    return _exp(x, (math.log(2),) if enough else (LN2_HIGH, LN2_LOW))


def _exp(x: Any, ln2: tuple[float, ...]) -> Any:
    """Return ``exp(x)``; ``ln2`` are the parts of ``ln 2``."""

    def scaled(shifted: Any, r: Any) -> Any:
        bits = tirx.shift_left(
            tirx.reinterpret(typed(r, "uint32"), shifted), const(r, 23, "uint32")
        )
        return polynomial(r, EXP_2) * tirx.reinterpret(typed(r, FLOAT_SUMS), bits)

    def remainder(c: Any, n: Any) -> Any:
        for part in ln2:
            c = c - n * const(c, part)
        return c

    def reduced(c: Any) -> Any:
        def split(shifted: Any) -> Any:
            rest = let(shifted - const(c, ROUND), lambda n: remainder(c, n))
            return let(rest, lambda r: scaled(shifted, r))

        return let(c * const(c, LOG2_E) + const(c, ROUND), split)

    return let(x, lambda v: let(clamp(v, EXP_LOW, EXP_HIGH), reduced))


def sigmoid(x: Any) -> Any:
    """``1 / (1 + exp(-x))``."""
    return const(x, 1.0) / (const(x, 1.0) + _exp(const(x, 0.0) - x, (LN2_HIGH, LN2_LOW)))


def _odd_rational(x: Any, limit: float, top: tuple[float, ...], bottom: tuple[float, ...]) -> Any:
    """``v * top(v^2) / bottom(v^2)``, with ``v`` clamped to where the function is flat.

    ``bottom`` is without its leading 1.
    """

    def ratio(v: Any) -> Any:
        return let(v * v, lambda q: v * polynomial(q, top) / monic(q, bottom))

    return let(x, lambda v: let(clamp(v, -limit, limit), ratio))


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
