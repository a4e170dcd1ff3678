"""Hurwitz's zeta function."""

from __future__ import annotations

import math
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.ops.tensors.axis import variable

_BEYOND = 9
"""Terms are added one by one until their base passes this."""

_BERNOULLI = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160)
"""Bernoulli numbers over factorials: the coefficients of Euler and Maclaurin's series."""


def zeta(exponent: te.Tensor, first: te.Tensor) -> te.Tensor:
    """Return the sum of ``(first + k) ** -exponent`` over all ``k`` from zero.

    Both are float64 and have one shape. Exponents below one give NaN, and so do broken ones where
    ``first`` is negative; a pole gives infinity.
    """
    wide = "float64"

    def number(value: float) -> Any:
        return tirx.const(value, wide)

    def emit(inputs: Any, outputs: Any) -> Any:
        exponents, firsts, results = (T.buffer_proxy(b) for b in (*inputs, *outputs))
        with IRBuilder() as builder, T.parallel(0, math.prod(first.shape)) as i:
            s, base, total, power, term, found = (variable(wide) for _ in range(6))
            s[0], base[0], total[0] = exponents[i], firsts[i], number(0)
            whole = tirx.all(base[0] <= 0, base[0] <= tirx.floor(base[0]))
            broken = tirx.any(s[0] < tirx.floor(s[0]), s[0] > tirx.floor(s[0]))
            found[0] = tirx.Select(whole, number(math.inf), number(0))
            found[0] = tirx.Select(tirx.all(base[0] < 0, broken), number(math.nan), found[0])
            found[0] = tirx.Select(s[0] < 1, number(math.nan), found[0])
            found[0] = tirx.Select(tirx.all(s[0] <= 1, s[0] >= 1), number(math.inf), found[0])
            with T.If(tirx.all(found[0] <= 0, found[0] >= 0)), T.Then():
                with T.While(base[0] <= _BEYOND):
                    total[0] = total[0] + tirx.pow(base[0], s[0] * -1)
                    base[0] = base[0] + 1
                power[0] = tirx.pow(base[0], s[0] * -1)
                total[0] = total[0] + power[0] * base[0] / (s[0] - 1) + power[0] * 0.5
                term[0] = s[0] * power[0] / base[0]
                for k, coefficient in enumerate(_BERNOULLI):
                    total[0] = total[0] + term[0] * coefficient
                    factors = (s[0] + (2 * k + 1)) * (s[0] + (2 * k + 2))
                    term[0] = term[0] * factors / (base[0] * base[0])
                found[0] = total[0]
            results[i] = found[0]
        return builder.get()

    return te.extern([first.shape], [exponent, first], emit, name="zeta", dtype=wide)
