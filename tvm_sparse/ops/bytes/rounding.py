"""Floats next to integers: how they are rounded, and what of an expression says so.

TVM keeps no call of a rounding function in vectors. Added to :data:`WHOLE`, a small number is
rounded to a whole one, half to even, which then stands in the low bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import ir, tirx

from tvm_sparse.base.numerics import FLOAT_SUMS, WHOLE


def nearest(x: Any) -> Any:
    """Return the integer next to ``x`` as a float, half to even, for less than 2**22."""
    return less_whole(x + whole())


def less_whole(x: Any) -> Any:
    """Return ``x`` less :data:`WHOLE`, which was added to it."""
    # Behind a look at its bits, so that TVM does not take the sum apart.
    bits = tirx.reinterpret("int32", x)
    return tirx.reinterpret(FLOAT_SUMS, bits) - whole()


def clamped(bits: Any, low: int | None, high: int, number: float = WHOLE) -> Any:
    """Return a whole number and ``number``, given as bits, from ``low`` to ``high``, as a float."""
    if low is not None:
        bits = tirx.max(bits, tirx.const(_bits(number + low), "int32"))
    bits = tirx.min(bits, tirx.const(_bits(number + high), "int32"))
    # As a float, so that TVM does not narrow the minimum's operands to bytes.
    return tirx.reinterpret(FLOAT_SUMS, bits)


def _bits(number: float) -> int:
    """Return the bits of a float."""
    return int(np.array(number, FLOAT_SUMS).view(np.int32))


@dataclass(frozen=True)
class Nearest:
    """The integer next to ``value`` as a float, half to even.

    ``low`` and ``high`` are the bits of limits, integers added to 1.5 * 2^23, between which it is;
    zero is between these. ``None`` is no limit. ``value`` is no NaN where one is.
    """

    value: Any
    low: Any | None = None
    high: Any | None = None

    @staticmethod
    def of(expr: Any) -> Nearest | None:
        """Return what ``expr`` rounds as :func:`nearest` or :func:`whole_steps` do."""
        if not isinstance(expr, tirx.Sub) or not is_number(expr.b, WHOLE):
            return None
        sums = number_with_bits(number_with_bits(expr.a))
        low = high = None
        if isinstance(bits := number_with_bits(sums), tirx.Min):
            bits, high = bits.a, bits.b
            if isinstance(bits, tirx.Max):
                bits, low = bits.a, bits.b
            sums = number_with_bits(bits)
        if not isinstance(sums, tirx.Add) or not is_number(sums.b, WHOLE):
            return None
        return Nearest(sums.a, low, high)

    def by(self, rounded: Callable[[Any], Any]) -> Any:
        """Return it by ``rounded``, which makes integers of floats.

        Signed integers with the bits of floats have the order of floats where one is positive,
        unsigned ones the other order where one is negative.
        """
        bits = tirx.reinterpret("uint32", self.value)
        if self.low is not None:
            low = tirx.reinterpret("uint32", less_whole(tirx.reinterpret(FLOAT_SUMS, self.low)))
            bits = tirx.min(bits, low | tirx.const(1 << 31, "uint32"))  # zero is negative, too
        bits = tirx.reinterpret("int32", bits)
        if self.high is not None:
            high = tirx.reinterpret("int32", less_whole(tirx.reinterpret(FLOAT_SUMS, self.high)))
            bits = tirx.min(bits, high)
        return rounded(tirx.reinterpret(FLOAT_SUMS, bits))


def is_number(expr: Any, number: float) -> bool:
    """Whether ``expr`` is ``number``."""
    return isinstance(expr, tirx.FloatImm) and float(expr) == number


def number_with_bits(expr: Any) -> Any:
    """Return the number whose bits ``expr`` is, ``None`` if it is something else."""
    looks = isinstance(expr, ir.Call) and expr.op.same_as(ir.Op.get("tirx.reinterpret"))
    return expr.args[0] if looks else None


def whole() -> Any:
    """Return :data:`WHOLE` as a number of an expression."""
    return tirx.const(WHOLE, FLOAT_SUMS)
