"""Divisions of numbers that are never negative by open extents."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
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
    before: ``floordiv(max(min(i * 16 + 3, n - 1), 0), h)`` --> after: ``truncdiv(max(...), h)``

    Loops begin at zero, and one over no steps divides nothing, so both are the same. TVM does not
    know the sign of an extent: it would ask for it in each division, and each place of a tensor
    with borders has several of them, one in the other. Simplifying such places took minutes, and
    most of the time in which machine code was made.
    """
    found = [node for kind in (tirx.FloorMod, tirx.FloorDiv) for node in nodes(func.body, kind)]
    if all(isinstance(node.b, tirx.IntImm) for node in found):
        return func
    numbers = _Numbers(func)

    def truncated(node: Any, operator: Any) -> Any:
        open_divisor = not isinstance(node.b, tirx.IntImm) and numbers.extents.has(node.b)
        return operator(node.a, node.b) if open_divisor and numbers.has(node.a) else node

    body = func.body
    for kind, operator in ((tirx.FloorMod, tirx.truncmod), (tirx.FloorDiv, tirx.truncdiv)):
        body = tvm_ffi.structural_map(body, (kind, lambda n, op=operator: truncated(n, op)))
    return tirx.PrimFunc(func.params, body, func.ret_type, attrs=func.attrs)


class _Numbers:
    """What is never negative: variables of loops and blocks, and what is computed from them."""

    def __init__(self, func: tirx.PrimFunc) -> None:
        loops = [(loop.loop_var, loop.min) for loop in nodes(func.body, tirx.For)]
        axes = [axis for block in nodes(func.body, s_tir.SBlock) for axis in block.iter_vars]
        counted = [*loops, *((axis.var, axis.dom.min) for axis in axes)]
        self.counted = {variable for variable, first in counted if _is_zero(first)}
        self.extents = _Extents(func)

    def has(self, value: Any) -> bool:
        """Whether ``value`` is never negative."""
        match value:
            case tirx.Var():
                return value in self.counted or self.extents.has(value)
            case tirx.IntImm():
                return int(value) >= 0
            case tirx.FloorMod() | tirx.FloorDiv() | tirx.Mod() | tirx.Div():
                return self.has(value.a) and self.extents.has(value.b)
            case tirx.Add() | tirx.Mul() | tirx.Min():
                return self.has(value.a) and self.has(value.b)
            case tirx.Max():
                return self.has(value.a) or self.has(value.b)
        return False


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
