"""Divisions of numbers that are never negative by open extents."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.sym import Analyzer, ConstIntBound

from tvm_sparse.schedules.blocks import map_functions, nodes


@tvm.transform.module_pass(opt_level=0, name="WholeNumbers")
class WholeNumbers:
    """:func:`whole_numbers` of each function."""

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` whose loop variables are divided as C divides."""
        return map_functions(mod, whole_numbers)


def whole_numbers(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return ``func`` whose loop variables are divided by open extents as C divides.

    before: ``floordiv(floormod(i, b * n), n)`` --> after: ``truncdiv(truncmod(i, b * n), n)``

    Loops begin at zero, and one over no steps divides nothing, so both are the same. TVM does not
    know the sign of an extent: it would ask for it in each division, and each place of a tensor
    with borders has several of them, one in the other. Simplifying such places took minutes, and
    half of the time in which machine code was made.
    """
    found = [node for kind in (tirx.FloorMod, tirx.FloorDiv) for node in nodes(func.body, kind)]
    if all(isinstance(node.b, tirx.IntImm) for node in found):
        return func
    counted = {loop.loop_var for loop in nodes(func.body, tirx.For) if _is_zero(loop.min)}
    extents = _Extents(func)

    def whole(value: Any) -> bool:
        if isinstance(value, tirx.FloorMod | tirx.FloorDiv | tirx.Mod | tirx.Div):
            return whole(value.a)
        return isinstance(value, tirx.Var) and value in counted

    def truncated(node: Any, operator: Any) -> Any:
        plain = not isinstance(node.b, tirx.IntImm) and whole(node.a) and extents.has(node.b)
        return operator(node.a, node.b) if plain else node

    body = func.body
    for kind, operator in ((tirx.FloorMod, tirx.truncmod), (tirx.FloorDiv, tirx.truncdiv)):
        body = tvm_ffi.structural_map(body, (kind, lambda n, op=operator: truncated(n, op)))
    return tirx.PrimFunc(func.params, body, func.ret_type, attrs=func.attrs)


class _Extents:
    """The extents of the parameters of a function, which are never negative."""

    def __init__(self, func: tirx.PrimFunc) -> None:
        shapes = (getattr(parameter.ty, "shape", None) or () for parameter in func.params)
        self.known = [extent for shape in shapes for extent in shape]
        self.analyzer = Analyzer()
        for symbol in {s for extent in self.known for s in tirx.analysis.undefined_vars(extent)}:
            self.analyzer.update(symbol, ConstIntBound(0, ConstIntBound.POS_INF))

    def has(self, value: Any) -> bool:
        """Whether ``value`` is one of them, a product of them or never below zero with them."""
        if isinstance(value, tirx.Mul):
            return self.has(value.a) and self.has(value.b)
        if self.analyzer.const_int_bound(value).min_value >= 0:
            return True
        return any(tvm_ffi.structural_equal(value, extent) for extent in self.known)


def _is_zero(value: Any) -> bool:
    return isinstance(value, tirx.IntImm) and int(value) == 0
