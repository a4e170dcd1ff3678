"""Divisions inside divisions of extents, ``((h + 1) // 2 + 1) // 2``, are traced as one."""

from __future__ import annotations

from typing import Any

import sympy
from torch.fx.experimental.sym_node import SymNode

from tvm_sparse.frontends.program.whole_forms import extreme, quotient, remainder


class OneDivision:
    """While it is entered, whole-number divisions of extents have one form, with one division.

    before: ``-(-h // 2)``                    --> after: ``(h + 1) // 2``
    before: ``((h + 1) // 2 + 1) // 2``       --> after: ``(h + 3) // 4``
    before: ``(7 - h % 7) % 7``               --> after: ``(h + 6) // 7 * 7 - h``
    before: ``max((h + 1) // 2 * 2 - h, 0)``  --> after: ``(h + 1) // 2 * 2 - h``

    The values are the same. TensorFlow's padding, ``max((ceil(h / s) - 1) * s + k - h, 0)``, makes
    a multiple of the stride of an extent. So what is behind many layers is one division of the
    input's extent. PyTorch finds no bounds of nested ones, and simplifies them for minutes.
    """

    def __enter__(self) -> OneDivision:
        """Begin."""
        self._originals = {name: getattr(SymNode, name) for name in _FORMS}
        for name, original in self._originals.items():
            setattr(SymNode, name, _formed(original, _FORMS[name]))
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        for name, original in self._originals.items():
            setattr(SymNode, name, original)


def _formed(original: Any, form: Any) -> Any:
    """Return an operator whose result has its form, where it is a computed whole number."""

    def operator(node: SymNode, other: SymNode) -> Any:
        result = original(node, other)
        if result.is_int() and result.constant is None and result.expr.free_symbols:
            result._expr = form(node.expr, other.expr, result.expr)
        return result

    return operator


def _quotient(over: sympy.Expr, by: sympy.Expr, found: sympy.Expr) -> sympy.Expr:
    return quotient(over, int(by)) if by.is_Integer and by > 0 else found


def _remainder(over: sympy.Expr, by: sympy.Expr, found: sympy.Expr) -> sympy.Expr:
    return remainder(over, int(by), found) if by.is_Integer and by > 0 else found


def _extreme(_: sympy.Expr, _other: sympy.Expr, found: sympy.Expr) -> sympy.Expr:
    return extreme(found)


_FORMS = {
    "int_floordiv": _quotient,
    "mod": _remainder,
    "sym_max": _extreme,
    "sym_min": _extreme,
}
"""By the operator of PyTorch's symbols: the form of its result."""
