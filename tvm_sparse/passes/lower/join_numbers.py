"""Fused functions take all numbers that they need in one shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import ir, relax
from tvm.ir.transform import PassContext

from tvm_sparse.passes.graph.rewrite import Rewriter, rewrite


@tvm.transform.module_pass(opt_level=0, name="JoinNumbers")
class JoinNumbers:
    """Make one parameter of a number and of the extents that a fused function takes in a shape.

    before: ``fused(x: (h, 2), w, (h,))``
    after:  ``fused(x: (h, 2), (h, w))``

    Where a function has both, TVM's ``FuseTIR`` defines a variable of it twice and ends.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: PassContext) -> tvm.IRModule:
        """Return ``mod`` with such functions, and calls that give them the numbers."""
        functions, joined = dict(mod.functions_items()), dict[str, ir.GlobalVar]()
        for name, func in mod.functions_items():
            if _is_mixed(func):
                renewed = _joined(functions.pop(name))
                joined[name.name_hint] = ir.GlobalVar(name.name_hint)
                relax.expr._update_type(joined[name.name_hint], renewed.ty)
                functions[joined[name.name_hint]] = renewed
        if not joined:
            return mod

        def rule(_rewriter: Rewriter, call: Any) -> Any | None:
            name = joined.get(getattr(call.op, "name_hint", ""))
            if name is None:
                return None
            others, numbers = _apart(call.args)
            (shape,) = (operand for operand in others if _is_shape(operand))
            whole = relax.ShapeExpr([*shape.values, *numbers])
            given = [whole if operand is shape else operand for operand in others]
            return relax.Call(name, given, call.attrs, call.ty_args)

        return rewrite(tvm.IRModule(functions, attrs=mod.attrs), rule)


def _joined(func: relax.Function) -> relax.Function:
    """Return ``func`` with its numbers in its shape."""
    others, numbers = _apart(func.params)
    (shape,) = (param for param in others if _is_shape(param))
    whole = relax.Var(shape.name, relax.ShapeType([*shape.ty.values, *numbers]))
    params = [whole if param is shape else param for param in others]
    return relax.Function(params, func.body, func.ret_ty, func.is_pure, func.attrs)


def _apart(exprs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return those that are no numbers, and the numbers."""
    numbers = [isinstance(expr.ty, ir.PrimType) for expr in exprs]
    pairs = list(zip(exprs, numbers, strict=True))
    return [e for e, number in pairs if not number], [e for e, number in pairs if number]


def _is_shape(expr: Any) -> bool:
    return isinstance(expr.ty, relax.ShapeType)


def _is_mixed(func: Any) -> bool:
    """Whether ``func`` is fused and takes numbers both by themselves and in a shape."""
    if not isinstance(func, relax.Function) or "Primitive" not in (func.attrs or {}):
        return False
    return bool(_apart(func.params)[1]) and any(map(_is_shape, func.params))
