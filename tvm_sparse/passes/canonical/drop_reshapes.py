"""Layers between a reshape of rows and its inverse run on the shape that was there before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax
from tvm.ir import GenericConst

from tvm_sparse.base.memory import array_of
from tvm_sparse.passes.graph.elementwise import ELEMENTWISE
from tvm_sparse.passes.graph.rewrite import (
    Rewriter,
    Shape,
    constant,
    count_uses,
    name_of,
    op_name,
    rewrite,
    same_shape,
    shape_of,
)

Build = Callable[[Rewriter], Any]
"""Emits an expression."""


class _Rows:
    """The rule: looks at the function as it was, and emits it with other leading axes."""

    def __init__(self, func: relax.Function) -> None:
        self.uses, self.bound = count_uses(func), relax.analysis.get_var2val(func)

    def __call__(self, rewriter: Rewriter, _call: Any) -> Any | None:
        call = rewriter.original
        if op_name(call) != "reshape" or not self._is_layer(call.args[0]):
            return None
        shape = shape_of(call)
        build = self._moved(call.args[0], shape[:-1]) if shape else None
        return build(rewriter) if build and self._keeps_rows(call) else None

    def _is_layer(self, expr: Any) -> bool:
        """Whether ``expr`` is computed element by element, or a product with a constant."""
        name = op_name(self.bound.get(expr))
        return name in ELEMENTWISE or name == "matmul"

    def _keeps_rows(self, call: relax.Call) -> bool:
        return same_shape((shape_of(call.args[0]) or [0])[-1:], (shape_of(call) or [1])[-1:])

    def _moved(self, expr: Any, lead: Shape) -> Build | None:
        """Return what emits ``expr`` with the leading axes ``lead``; ``None`` if nothing does."""
        if isinstance(expr, GenericConst):
            return _of_features(expr, lead)
        call: Any = self.bound.get(expr) if isinstance(expr, relax.Var) else None
        if op_name(call) == "reshape" and self._keeps_rows(call):
            source = call.args[0]
            same = same_shape((shape_of(source) or [0])[:-1], lead)
            return (lambda rewriter: rewriter.visit_expr(source)) if same else None
        if self.uses.get(expr) != 1 or not self._is_layer(expr):
            return None
        if op_name(call) == "matmul" and len(shape_of(call.args[1]) or []) != 2:
            return None
        moving = call.args[:1] if op_name(call) == "matmul" else call.args
        parts = [self._moved(operand, lead) for operand in moving]
        if any(part is None for part in parts):
            return None
        return lambda rewriter: rewriter.emit(
            relax.Call(
                call.op,
                [*(part(rewriter) for part in parts if part), *call.args[len(parts) :]],
                call.attrs,
            )
        )


def _of_features(const: GenericConst, lead: Shape) -> Build | None:
    """Return what emits a constant that has a number for all, or one for each feature."""
    array = array_of(const)
    if array.ndim == 0:
        return lambda rewriter: const
    if array.size != array.shape[-1]:
        return None
    moved = array.reshape((1,) * len(lead) + array.shape[-1:])
    return lambda rewriter: constant(moved, name_of(const))


@tvm.transform.module_pass(opt_level=0, name="DropReshapes")
@dataclass(frozen=True)
class DropReshapes:
    """Compute with the leading axes of the original where a reshape of rows is taken back.

    before: ``reshape(add(matmul(reshape(x, (64, 32)), w), b), (2, 32, 16))``, ``x: (2, 32, 32)``
    after:  ``add(matmul(x, w), b)``

    Some exporters write a linear layer so. What comes behind it is then fused into its kernel.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with fewer reshapes."""
        return rewrite(mod, _Rows(mod["main"]))
