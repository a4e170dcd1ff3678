"""What a condition computes is bound in front of the choice that it decides."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import Call
from tvm.tirx.analysis import undefined_vars

from tvm_sparse.schedules.blocks import map_functions, nodes

Binding = tuple[tirx.Var, Any]


@tvm.transform.module_pass(opt_level=0, name="LiftedBindings")
class LiftedBindings:
    """Bind variables of a selection's condition in front of the selection.

    before: ``T.Select((let v = x[i] in v <= 1), a, b)``
    after:  ``let v = x[i] in T.Select(v <= 1, a, b)``

    TVM's simplifier reads a condition again where it is known to hold, and fails on a variable that
    is bound to another form of the same value there. Both sides of a selection are computed, and
    so is its condition: what was in it may be computed in front of it.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` without bindings in conditions of selections."""
        return map_functions(mod, _lifted)


def _lifted(func: tirx.PrimFunc) -> tirx.PrimFunc:
    if not any(nodes(node.condition, tirx.Let) for node in nodes(func.body, tirx.Select)):
        return func
    body = tvm_ffi.structural_map(func.body, (tirx.Select, _selection))
    return tirx.PrimFunc(func.params, body, func.ret_type, attrs=func.attrs)


def _selection(node: Any) -> Any:
    """Return ``node`` behind the bindings of its condition, those first that others read."""
    condition, left = _apart(node.condition)
    if not left:
        return node
    result = tirx.Select(condition, node.true_value, node.false_value)
    while left:
        inner = [b for b in left if not any(_reads(other, b[0]) for other in left)]
        for variable, value in inner:
            result = tirx.Let(variable, value, result)
        left = [b for b in left if b not in inner]
    return result


def _apart(condition: Any) -> tuple[Any, list[Binding]]:
    """Return ``condition``, which binds nothing, and what it bound; itself if it has a branch."""
    if any(node.op == _BRANCH for node in nodes(condition, Call)):
        return condition, []
    found: list[Binding] = []

    def taken(let: Any) -> Any:
        found.append((let.var, let.value))
        return let.body

    return tvm_ffi.structural_map(condition, (tirx.Let, taken)), found


def _reads(binding: Binding, variable: tirx.Var) -> bool:
    return any(variable.same_as(v) for v in undefined_vars(binding[1]))


_BRANCH = tvm.ir.Op.get("prim.if_then_else")
