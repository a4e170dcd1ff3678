"""What follows for expressions of open extents from the ranges that these have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
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
        """Return the simple form: ``n // 2`` for ``min(n // 2, n)`` of a positive ``n``.

        What has one value in all of a range is this number: ``(n + 127) // 128`` is 1 up to 128.
        """
        if isinstance(extent, int):
            return extent
        settled = tvm_ffi.structural_map(extent, (tuple(_NUMPY), self._number))
        settled = tvm_ffi.structural_map(settled, ((tirx.Min, tirx.Max), self._one))
        return self.analyzer.simplify(settled)

    def _number(self, expr: Any) -> Any:
        """Return the only value of an expression of one variable, or the expression."""
        variables = tirx.analysis.undefined_vars(expr)
        low, high = self.ranges.get(variables[0], (0, None)) if len(variables) == 1 else (0, None)
        if high is None or not 0 <= high - low < _MOST_VALUES:
            return expr
        ends = _values(expr, np.array([low, high]))
        if ends is None or ends[0] != ends[1]:  # as most differ there, few are evaluated further
            return expr
        values = _values(expr, np.arange(low, high + 1))
        if values is None or np.any(values != values[0]):
            return expr
        return tirx.IntImm(str(expr.ty.dtype), int(values[0]))

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


_MOST_VALUES = 1 << 16
"""Sizes of a range that an expression is evaluated for."""

_NUMPY = {
    tirx.Add: np.add,
    tirx.Sub: np.subtract,
    tirx.Mul: np.multiply,
    tirx.FloorDiv: np.floor_divide,
    tirx.FloorMod: np.remainder,
    tirx.Min: np.minimum,
    tirx.Max: np.maximum,
}


def _values(expr: Any, sizes: np.ndarray) -> np.ndarray | None:
    """Return an expression for each size of its only variable; None: it has another function."""
    if isinstance(expr, tirx.Var):
        return sizes
    if isinstance(expr, tirx.IntImm):
        return np.full_like(sizes, int(expr))
    function = _NUMPY.get(type(expr))
    if function is None:
        return None
    a, b = _values(expr.a, sizes), _values(expr.b, sizes)
    return None if a is None or b is None else function(a, b)


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
