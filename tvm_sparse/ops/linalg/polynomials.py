"""Orthogonal polynomials by their recurrences: each value follows from the two before it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx
from tvm.ir import Expr
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.ops.tensors.axis import variable


@dataclass(frozen=True)
class Recurrence:
    """A family of polynomials, of which that of degree zero is one.

    Parameters
    ----------
    first
        The polynomial of degree one.
    following
        That of degree ``k + 1`` at ``x`` from ``k``, ``x`` and those of degree ``k`` and ``k - 1``.
    most
        The largest degree; values of larger ones are NaN.
    """

    first: Callable[[Any], Any]
    following: Callable[[Any, Any, Any, Any], Any]
    most: int | None = None


def _chebyshev(first: Callable[[Any], Any], *, shifted: bool = False) -> Recurrence:
    def argument(x: Expr) -> Any:
        return x * 2 - 1 if shifted else x

    return Recurrence(
        lambda x: first(argument(x)), lambda k, x, last, before: argument(x) * 2 * last - before
    )


_CHEBYSHEV: dict[str, Callable[[Any], Any]] = {
    "t": lambda x: x,
    "u": lambda x: x * 2,
    "v": lambda x: x * 2 - 1,
    "w": lambda x: x * 2 + 1,
}

_HERMITE_MOST = 128
"""PyTorch gives no larger degrees in single precision."""

RECURRENCES: dict[str, Recurrence] = {
    **{f"chebyshev_polynomial_{n}": _chebyshev(f) for n, f in _CHEBYSHEV.items()},
    **{
        f"shifted_chebyshev_polynomial_{n}": _chebyshev(f, shifted=True)
        for n, f in _CHEBYSHEV.items()
    },
    "hermite_polynomial_h": Recurrence(
        lambda x: x * 2, lambda k, x, last, before: (x * last - k * before) * 2, _HERMITE_MOST
    ),
    "hermite_polynomial_he": Recurrence(
        lambda x: x, lambda k, x, last, before: x * last - k * before, _HERMITE_MOST
    ),
    "laguerre_polynomial_l": Recurrence(
        lambda x: x * -1 + 1,
        lambda k, x, last, before: ((k * 2 + 1 - x) * last - k * before) / (k + 1),
    ),
    "legendre_polynomial_p": Recurrence(
        lambda x: x,
        lambda k, x, last, before: ((k * 2 + 1) * x * last - k * before) / (k + 1),
    ),
}
"""By PyTorch's name of the function, without ``special_``."""


def polynomial(x: te.Tensor, degree: te.Tensor, family: Recurrence) -> te.Tensor:
    """Return the polynomials of ``degree``, cut to whole numbers, at ``x``; zero below degree zero.

    Both are float64 and have one shape.
    """
    wide = "float64"

    def emit(inputs: Any, outputs: Any) -> Any:
        points, degrees, results = (T.buffer_proxy(b) for b in (*inputs, *outputs))
        with IRBuilder() as builder, T.parallel(0, math.prod(x.shape)) as i:
            before, last, following, point = (variable(wide) for _ in range(4))
            wanted = variable("int64")
            point[0], wanted[0] = points[i], tirx.Cast("int64", degrees[i])
            before[0], last[0] = tirx.const(1, wide), family.first(point[0])
            with T.serial(1, tirx.max(wanted[0], tirx.const(1, "int64"))) as k:
                following[0] = family.following(tirx.Cast(wide, k), point[0], last[0], before[0])
                before[0], last[0] = last[0], following[0]
            found = tirx.Select(wanted[0] == 0, tirx.const(1, wide), last[0])
            found = tirx.Select(wanted[0] < 0, tirx.const(0, wide), found)
            if family.most is not None:
                found = tirx.Select(wanted[0] > family.most, tirx.const(math.nan, wide), found)
            results[i] = found
        return builder.get()

    return te.extern([x.shape], [x, degree], emit, name="polynomial", dtype=wide)
