"""Forms of quotients, remainders and extremes of whole numbers, in PyTorch's functions of sympy."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import sympy
from torch.utils._sympy.functions import FloorDiv, Max, Min, Mod, PythonMod

_Terms = dict[Any, int]
"""A sum: the factor of each term; that of one is the number that is added."""

_KEPT = 4096
"""Forms that are found again without computing them: each layer asks for the same ones."""


@functools.lru_cache(_KEPT)
def quotient(over: sympy.Expr, by: int) -> sympy.Expr:
    """Return ``over // by`` for a positive ``by``: as one division, wherever it is one."""
    if any(_leaves(term) and term.args[0].has(FloorDiv) for term in _terms(over)):
        return _with_names(over, by)
    terms = _without_remainders(over)
    chosen = [term for term, factor in terms.items() if isinstance(term, _EXTREMES) and factor > 0]
    if len(chosen) == 1:  # a division keeps the order of what is divided
        factor = terms.pop(chosen[0])
        rest = _sum(terms)
        return extreme(chosen[0].func(*(quotient(rest + factor * e, by) for e in chosen[0].args)))
    inner = [term for term, factor in terms.items() if _divides(term) and abs(factor) == 1]
    if len(inner) == 1:
        return _merged(terms, inner[0], by)
    return _divided(terms, by)


@functools.lru_cache(_KEPT)
def remainder(over: sympy.Expr, by: int, found: sympy.Expr) -> sympy.Expr:
    """Return ``over % by``: what is ``found``, or what has no remainders in it.

    ``(7 - h % 7) % 7`` is ``-h % 7``, which is ``(h + 6) // 7 * 7 - h``.
    """
    if not over.has(*_REMAINDERS):
        return found
    plain = sympy.Add(*(factor * _same_left(e, factor, by) for e, factor in _terms(over).items()))
    return plain - by * quotient(plain, by)


@functools.lru_cache(_KEPT)
def extreme(found: sympy.Expr) -> sympy.Expr:
    """Return a maximum or minimum without parts that another one always exceeds."""
    if not isinstance(found, _EXTREMES):
        return found
    sign = 1 if isinstance(found, Max) else -1
    kept = list(found.args)
    for part in found.args:
        others = [other for other in kept if other != part]
        if any(least(sign * (other - part)) > -1 for other in others):  # they are whole numbers
            kept = others
    return found.func(*kept)


def least(expr: sympy.Expr) -> sympy.Expr:
    """Return a number that ``expr`` is never below; sizes are one or more.

    What is rounded is less than one away from what it is without: so ``a // 2 * 2 - a`` is at
    least -1 for every ``a``.
    """
    rounded = sympy.S.Zero
    for term, factor in _terms(expr).items():
        if _divides(term):
            over, by = term.args
            expr += factor * (over / by - term)
            rounded += min(0, factor * (1 - by) / by)
    if rounded:
        return least(expr) + rounded
    return sum((_least(term, factor) for term, factor in _terms(expr).items()), sympy.S.Zero)


def _least(term: sympy.Expr, factor: sympy.Rational) -> sympy.Expr:
    """Return a number that a term, which is no division, is never below."""
    low, high = (1, 1) if term == 1 else (-sympy.oo, sympy.oo)
    if _leaves(term):
        low, high = 0, term.args[1] - 1
    elif term.is_positive or term.is_nonnegative:
        low = 1 if term.is_positive else 0
    return factor * (low if factor > 0 else high)


_EXTREMES = (Max, Min)
_REMAINDERS = (Mod, PythonMod)


def _terms(expr: sympy.Expr) -> _Terms:
    return dict(expr.as_coefficients_dict())


def _sum(terms: Mapping[Any, int]) -> sympy.Expr:
    return sympy.Add(*(factor * term for term, factor in terms.items()))


def _divides(term: sympy.Expr) -> bool:
    """Whether a term is a division by a positive number."""
    return isinstance(term, FloorDiv) and bool(term.args[1].is_Integer) and term.args[1] > 0


def _leaves(term: sympy.Expr) -> bool:
    """Whether a term is what a division by a positive number leaves."""
    return isinstance(term, _REMAINDERS) and bool(term.args[1].is_Integer) and term.args[1] > 0


def _without_remainders(expr: sympy.Expr) -> _Terms:
    """Return the terms of a sum, in which ``a % b`` is ``a - a // b * b``."""
    found = _terms(expr)
    while left := [term for term in found if _leaves(term)]:
        over, by = left[0].args
        factor = found.pop(left[0])
        found = _terms(_sum(found) + factor * over - factor * by * quotient(over, int(by)))
    return found


def _with_names(over: sympy.Expr, by: int) -> sympy.Expr:
    """Return the quotient of a sum with names for what is divided already.

    Of ``n = h // 4``, ``(n + n % 2) // 2`` is ``n - n // 2``, which is ``(n + 1) // 2``.
    """
    names = {e: sympy.Dummy(integer=True) for e in over.atoms(FloorDiv)}
    found = quotient(over.xreplace(names), by).xreplace({name: e for e, name in names.items()})
    divisions = [e for e in found.atoms(FloorDiv) if _divides(e)]
    return found.xreplace({e: quotient(e.args[0], int(e.args[1])) for e in divisions})


def _same_left(term: sympy.Expr, factor: int, by: int) -> sympy.Expr:
    """Return what has the remainder of ``term``, times ``factor``, in a division by ``by``."""
    same = _leaves(term) and factor * term.args[1] % by == 0
    return term.args[0] if same else term


def _merged(terms: _Terms, inner: sympy.Expr, by: int) -> sympy.Expr:
    """Return ``(a // b + c) // by`` as ``(a + b * c) // (b * by)``."""
    over, under = inner.args
    if terms.pop(inner) < 0:  # -(a // b) is -a / b, rounded up
        over = under - 1 - over
    return quotient(over + under * _sum(terms), int(under) * by)


def _divided(terms: _Terms, by: int) -> sympy.Expr:
    """Return a sum divided by ``by``: its multiples are in front, and what is left is positive."""
    number = int(terms.pop(sympy.S.One, 0))
    whole = {term: factor // by for term, factor in terms.items() if factor % by == 0}
    left = {term: int(factor) for term, factor in terms.items() if factor % by}
    if not left:
        return _one_of_sum(_sum(whole) + number // by)
    common = sympy.igcd(by, *left.values())
    if common > 1:
        over = _sum({term: factor // common for term, factor in left.items()})
        return quotient(over + number // common, by // common) + _sum(whole)
    first = min(left, key=sympy.default_sort_key)
    sign = 1 if left[first] > 0 else -1  # rounded down, or up: -((-a) // b)
    number = number if sign > 0 else by - 1 - number
    over = sign * _sum(left) + number % by
    return sign * (FloorDiv(over, by) + number // by) + _sum(whole)


def _one_of_sum(expr: sympy.Expr) -> sympy.Expr:
    """Return ``h - h // 2`` as ``(h + 1) // 2``."""
    merged = [term for term, factor in _terms(expr).items() if _divides(term) and abs(factor) == 1]
    return quotient(expr, 1) if len(merged) == 1 and expr != merged[0] else expr
