"""What follows for expressions of open extents from the ranges that these have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.sym import Analyzer, ConstIntBound

_Form = dict[Any, Fraction]
"""Factors of variables; that of ``None`` is added."""


@dataclass(frozen=True)
class KnownExtents:
    """The least and the largest value of each variable; ``None`` is no largest one.

    TVM's analyzer does not find that ``n // 2`` is at most ``n``. Sums with rational factors,
    between which each expression lies, tell that: ``n / 2 - 1 / 2 <= n // 2 <= n / 2``.
    """

    ranges: Mapping[Any, tuple[int, int | None]]
    analyzer: Analyzer = field(default_factory=Analyzer)

    def __post_init__(self) -> None:
        """Tell the analyzer of the ranges."""
        for variable, (low, high) in self.ranges.items():
            most = ConstIntBound.POS_INF if high is None else high
            self.analyzer.update(variable, ConstIntBound(low, most), True)

    def ordered(self, small: Any, large: Any) -> bool:
        """Whether ``small`` is at most ``large`` for all values of the variables, provably."""
        if isinstance(small, tirx.Max):
            return self.ordered(small.a, large) and self.ordered(small.b, large)
        difference = self.analyzer.simplify(tirx.const(0, "int64") + large - small)
        form = _bound(difference, up=False)
        least = None if form is None else self._least(form)
        return least is not None and least >= 0

    def simplify(self, extent: Any) -> Any:
        """Return the simple form: ``n // 2`` for ``min(n // 2, n)`` of a positive ``n``."""
        if isinstance(extent, int):
            return extent
        settled = tvm_ffi.structural_map(extent, ((tirx.Min, tirx.Max), self._one))
        return self.analyzer.simplify(settled)

    def _one(self, extreme: Any) -> Any:
        """Return that operand of an extreme which it always is, or the extreme itself."""
        a, b = extreme.a, extreme.b
        small, large = (a, b) if isinstance(extreme, tirx.Min) else (b, a)
        if self.ordered(small, large):
            return a
        return b if self.ordered(large, small) else extreme

    def _least(self, form: _Form) -> Fraction | None:
        """Return the least value of a form, ``None`` if there is none."""
        total = Fraction(0)
        for variable, factor in form.items():
            low, high = (1, 1) if variable is None else self.ranges.get(variable, (None, None))
            end = low if factor > 0 else high
            if factor and end is None:
                return None
            total += factor * (end or 0)
        return total


def _bound(expr: Any, *, up: bool) -> _Form | None:
    """Return a form that is at least ``expr``, or at most; ``None`` if none is found."""
    if isinstance(expr, int | tirx.IntImm):
        return {None: Fraction(int(expr))}
    if isinstance(expr, tirx.Var):
        return {expr: Fraction(1)}
    if isinstance(expr, tirx.Add | tirx.Sub):
        sign = 1 if isinstance(expr, tirx.Add) else -1
        return _sum(_bound(expr.a, up=up), _bound(expr.b, up=up == (sign > 0)), sign)
    if isinstance(expr, tirx.Mul) and isinstance(expr.b, tirx.IntImm):
        factor = int(expr.b)
        return _sum({}, _bound(expr.a, up=up == (factor >= 0)), factor)
    if isinstance(expr, tirx.FloorDiv) and isinstance(expr.b, tirx.IntImm) and int(expr.b) > 0:
        by = int(expr.b)
        rest = Fraction(0 if up else 1 - by, by)
        return _sum({None: rest}, _bound(expr.a, up=up), Fraction(1, by))
    extreme = tirx.Min if up else tirx.Max
    return _bound(expr.a, up=up) if isinstance(expr, extreme) else None


def _sum(form: _Form | None, other: _Form | None, factor: Any) -> _Form | None:
    """Return ``form + factor * other``."""
    if form is None or other is None:
        return None
    return {
        variable: form.get(variable, Fraction(0)) + factor * other.get(variable, Fraction(0))
        for variable in {**form, **other}
    }
