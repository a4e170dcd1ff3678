"""Extents that code rounds from real numbers, ``math.ceil(h / 2)``, are traced in whole numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from torch.fx.experimental.sym_node import SymNode

_MOST = 1 << 20
"""Largest divisor. With it a real number of 64 bits holds every product exactly."""

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
    def operator(node: SymNode) -> Any:
        quotient = getattr(node, "quotient", None)
        return original(node) if quotient is None else _ROUNDED[name](quotient)

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
    if quotient is None or number is None or number[1] > _MOST:
        return None
    factor, under = number
    return _Quotient(_times(quotient.over, factor), quotient.under * under)


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

_ROUNDED = {"floor": _down, "ceil": _up}
"""By the operator that rounds: the same in whole numbers. ``int`` is not among them: its result is
a number of Python's, which no extent can be."""
