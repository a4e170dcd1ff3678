"""Divisions in indices that TVM gets wrong when it makes tensors flat."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.sym import Analyzer

from tvm_sparse.schedules.blocks import map_functions

_FLOORS = (tirx.FloorDiv, tirx.FloorMod)
_UNKNOWN = -(1 << 60)


@tvm.transform.module_pass(opt_level=0, name="ExactIndices")
class ExactIndices:
    """Divide towards zero in indices where TVM takes another remainder.

    before: ``for i in range(20): y[i] = x[(4 - i) % 5]``, which TVM 0.27 reads as ``x[-(i % -5)]``
    after: ``for i in range(20): y[i] = x[truncmod(19 - i, 5)]``

    ``FlattenBuffer`` rewrites indices as maps of loops. It loses the constant of a dividend in
    two cases: a loop counts down, or the dividend is a quotient or a remainder plus a constant. It
    does not look into divisions towards zero.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with such divisions in other words."""
        return map_functions(mod, _exact)


def _exact(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return ``func`` with such divisions in indices replaced; as it is if it has none."""
    lost: list[Any] = []
    tvm_ffi.structural_walk(func.body, (_FLOORS, lambda node: lost.append(loses_constant(node))))
    if not any(lost):
        return func
    analyzer = _ranges(func)

    def towards_zero(node: Any) -> Any:
        return exact_division(node, analyzer) if loses_constant(node) else node

    def placed(indices: Any) -> list[Any]:
        return [tvm_ffi.structural_map(i, (_FLOORS, towards_zero)) for i in indices]

    def load(node: ir.TensorLoad) -> Any:
        return tirx.BufferLoad(node.source, placed(node.indices))

    def store(node: tirx.BufferStore) -> Any:
        return tirx.BufferStore(node.buffer, node.value, placed(node.indices))

    rules = ((ir.TensorLoad, load), (tirx.BufferStore, store))
    body = tvm_ffi.structural_map(func.body, rules)
    return tirx.PrimFunc(func.params, body, func.ret_type, attrs=func.attrs)


def _ranges(func: tirx.PrimFunc) -> Analyzer:
    """Return what is known of the variables of loops and blocks."""
    analyzer = Analyzer()

    def see(node: Any) -> None:
        if isinstance(node, tirx.For):
            analyzer.bind(node.loop_var, ir.Range.from_min_extent(node.min, node.extent))
        else:
            for axis in node.iter_vars:
                analyzer.bind(axis.var, axis.dom)

    tvm_ffi.structural_walk(func.body, ((tirx.For, s_tir.SBlock), see))
    return analyzer


def loses_constant(node: Any) -> bool:
    """Whether TVM may lose a constant of what ``node``, a floored division, divides."""
    if not isinstance(node.b, tirx.IntImm):
        return False
    if int(node.b) < 0:
        return True
    found: list[bool] = []
    tvm_ffi.structural_walk(node.a, ((tirx.Sub, tirx.Mul), lambda n: found.append(_falls(n))))
    tvm_ffi.structural_walk(node.a, (_FLOORS, lambda _: found.append(_has_constant(node.a))))
    return any(found)


def _falls(node: Any) -> bool:
    """Whether something that is no constant is taken away in ``node``."""
    if isinstance(node, tirx.Sub):
        return not isinstance(node.b, tirx.IntImm)
    return any(isinstance(n, tirx.IntImm) and int(n) < 0 for n in (node.a, node.b))


def _has_constant(expr: Any) -> bool:
    """Whether a constant is added to something in ``expr``."""
    found: list[bool] = []

    def see(node: Any) -> None:
        found.append(any(isinstance(n, tirx.IntImm) for n in (node.a, node.b)))

    tvm_ffi.structural_walk(expr, ((tirx.Add, tirx.Sub), see))
    return any(found)


def exact_division(node: Any, analyzer: Analyzer) -> Any:
    """Return ``node``, a floored division by a constant, as one towards zero."""
    whole, by, rest = node.a, node.b, isinstance(node, tirx.FloorMod)
    if int(by) < 0:
        whole, by = whole * -1, by * -1
    least = int(analyzer.const_int_bound(whole).min_value)
    if least > _UNKNOWN:
        steps = max(0, -(least // int(by)))
        above = whole + by * steps
        result = tirx.truncmod(above, by) if rest else tirx.truncdiv(above, by) - steps
    else:
        left = tirx.truncmod(tirx.truncmod(whole, by) + by, by)
        result = left if rest else tirx.truncdiv(whole - left, by)
    return result * -1 if rest and int(node.b) < 0 else result
