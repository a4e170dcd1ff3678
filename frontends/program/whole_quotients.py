"""Extents that code rounds from real numbers, ``math.ceil(h / 2)``, are traced in whole numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from torch.fx.experimental.sym_node import SymNode
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

_MOST = 1 << 20
"""Largest divisor. With it a real number of 64 bits holds every product exactly."""

_MOST_DECIMAL = 1 << 10
"""Largest divisor of a decimal fraction, as 0.3 is 3 / 10."""

_MOST_TRIED = 1 << 20
"""So many sizes of an extent are tried at most: whether a decimal fraction of it is that one."""

_MOST_ADDED = 1 << 12
"""Largest divisor of a sum, below 2^40: its rest is larger than what rounding it again changes."""


@dataclass(frozen=True)
class _Quotient:
    """What a real number is: ``over`` divided by the positive number ``under``."""

    over: SymNode
    under: int

    @property
    def exact(self) -> bool:
        """Whether no step to it was rounded: its divisor is a power of two."""
        return self.under & (self.under - 1) == 0


class WholeQuotients:
    """While it is entered, quotients of extents are rounded as divisions of whole numbers.

    before: ``math.ceil(h / 2)`` --> after: ``-(-h // 2)``
    before: ``math.floor(h * 0.375)`` --> after: ``3 * h // 8``
    before: ``math.ceil((h - 7) / 5 + 1)`` --> after: ``-(-(h - 2) // 5)``
    before: ``round(h / 3)``, ``int(h * 0.3)`` --> after: ``(2 * h + 3) // 6``, ``3 * h // 10``

    The result is the same: the quotient is rounded once, and the nearest real number is no whole
    one where it is none, nor with a whole number added. What is rounded more often stays: eager
    computes it otherwise. PyTorch knows no bounds of rounded real numbers, and simplifies forms
    with them for minutes.
    """

    def __enter__(self) -> WholeQuotients:
        """Begin."""
        self._originals = {name: getattr(SymNode, name) for name in (*_REAL, *_ROUNDED)}
        for name, original in self._originals.items():
            make = _noted(original, _REAL[name]) if name in _REAL else _rounded(name, original)
            setattr(SymNode, name, make)
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        for name, original in self._originals.items():
            setattr(SymNode, name, original)


def _noted(original: Any, quotient: Any) -> Any:
    """Return an operator whose result remembers of what it is the quotient."""

    def operator(node: SymNode, *others: SymNode) -> Any:
        result, found = original(node, *others), quotient(node, *others)
        if found is not None and found.under <= _MOST:
            result.quotient = found
        return result

    return operator


def _rounded(name: str, original: Any) -> Any:
    def operator(node: SymNode, digits: int | None = None) -> Any:
        quotient = getattr(node, "quotient", None)
        found = None if quotient is None or digits is not None else _ROUNDED[name](quotient)
        given = () if digits is None else (digits,)
        return original(node, *given) if found is None else found

    return operator


def _exact(node: SymNode) -> _Quotient | None:
    """Return ``node`` as a quotient if it is a whole number, or one that no step rounded."""
    if node.is_int():
        return _Quotient(node, 1)
    found: _Quotient | None = getattr(node, "quotient", None)
    return found if found is not None and found.exact else None


def _number(node: SymNode) -> tuple[int, int] | None:
    """Return a constant as a quotient in lowest terms."""
    value = node.maybe_as_int() if node.is_int() else node.maybe_as_float()
    if value is None or not math.isfinite(value):
        return None
    return float(value).as_integer_ratio()


def _divided(node: SymNode, by: SymNode) -> _Quotient | None:
    quotient, number = _exact(node), _number(by)
    if quotient is None or number is None or number[0] <= 0 or number[1] != 1:
        return None
    return _Quotient(quotient.over, quotient.under * number[0])


def _multiplied(node: SymNode, by: SymNode) -> _Quotient | None:
    if node.is_int() and by.is_int():
        return None
    number = _number(by)
    quotient, number = (_exact(by), _number(node)) if number is None else (_exact(node), number)
    if quotient is None or number is None:
        return None
    if number[1] > _MOST:
        number = _decimal(quotient, number[0] / number[1])
        if number is None:
            return None
    factor, under = number
    return _Quotient(_times(quotient.over, factor), quotient.under * under)


def _decimal(quotient: _Quotient, factor: float) -> tuple[int, int] | None:
    """Return ``factor`` as the short fraction that its product with ``quotient`` rounds as.

    The product of 0.29 and 100 is below 29. A whole product is exact at every size where the
    factor is near enough to the fraction, and is tried at every size elsewhere.
    """
    found = Fraction(factor).limit_denominator(_MOST_DECIMAL)
    if float(found) != factor or quotient.under != 1:
        return None
    apart = abs(Fraction(factor) / found - 1)
    if apart > Fraction(1, 1 << 54) and not _is_whole_alike(quotient.over, factor, found):
        return None
    return found.numerator, found.denominator


def _is_whole_alike(extent: SymNode, factor: float, fraction: Fraction) -> bool:
    """Whether ``extent * factor`` is whole wherever it is with ``fraction`` for the factor."""
    bounds = _bounds(extent)
    if not (bounds.lower.is_Integer and bounds.upper.is_Integer):
        return False
    low, high = int(bounds.lower), int(bounds.upper)
    if high - low > _MOST_TRIED:
        return False
    step = fraction.denominator
    sizes = np.arange(low + -low % step, high + 1, step)
    return bool((sizes * factor == sizes // step * fraction.numerator).all())


def _bounds(extent: SymNode) -> Any:
    """Return the range of an extent, of inputs that have one element or more along each axis."""
    assert extent.shape_env is not None
    every = extent.shape_env.var_to_range
    known = {symbol: every[symbol] for symbol in extent.expr.free_symbols if symbol in every}
    some = {s: r & ValueRanges(1, int_oo) if r.upper >= 1 else r for s, r in known.items()}
    return bound_sympy(extent.expr, some)


def _combined(operator: str) -> Any:
    """Return of what a sum or difference is the quotient: one of its parts is a whole number."""

    def quotient(node: SymNode, by: SymNode) -> _Quotient | None:
        one, other = _summand(node), _summand(by)
        if (node.is_int() and by.is_int()) or one is None or other is None:
            return None
        under = one.under * other.under
        if 1 not in (one.under, other.under) or under > _MOST_ADDED:
            return None
        over, summand = _times(one.over, other.under), _times(other.over, one.under)
        return _Quotient(getattr(over, operator)(summand), under)

    return quotient


def _summand(node: SymNode) -> _Quotient | None:
    """Return ``node`` as a quotient, which may be rounded, if it is one or a whole number."""
    found: _Quotient | None = getattr(node, "quotient", None)
    if found is not None or node.is_int():
        return found or _Quotient(node, 1)
    number = _number(node)
    if number is None or number[1] != 1:
        return None
    return _Quotient(node.wrap_int(number[0]), 1)


def _times(node: SymNode, factor: int) -> SymNode:
    return node if factor == 1 else node.mul(node.wrap_int(factor))


def _down(x: _Quotient) -> SymNode:
    return x.over if x.under == 1 else x.over.int_floordiv(x.over.wrap_int(x.under))


def _up(x: _Quotient) -> SymNode:
    return x.over if x.under == 1 else _down(_Quotient(x.over.neg(), x.under)).neg()


def _cut(x: _Quotient) -> SymNode | None:
    """Return it without its fraction, if it is not negative."""
    return _down(x) if _bounds(x.over).lower >= 0 else None


def _nearest(x: _Quotient) -> SymNode:
    """Return the nearest whole number, of two the even one."""
    over, under = x.over, x.under
    if under == 1:
        return over
    if under % 2:  # never between two
        return _down(_Quotient(_plus(_times(over, 2), under), 2 * under))
    half = under // 2  # it rises behind 1/2, 5/2, ..., and from 3/2, 7/2, ... on
    behind, reached = _plus(over, 3 * half - 1), _plus(over, half)
    return _down(_Quotient(behind, 4 * half)).add(_down(_Quotient(reached, 4 * half)))


def _plus(node: SymNode, number: int) -> SymNode:
    return node.add(node.wrap_int(number))


_REAL = {
    "sym_float": _exact,
    "int_truediv": _divided,
    "float_truediv": _divided,
    "truediv": _divided,
    "mul": _multiplied,
    "add": _combined("add"),
    "sub": _combined("sub"),
}
"""By the operator of PyTorch's symbols: of what its result is the quotient, if of anything."""

_ROUNDED = {"floor": _down, "ceil": _up, "trunc": _cut, "round": _nearest}
"""By the operator that rounds: the same in whole numbers, None where there is no form for it."""
