"""No factor of a product has variables inside of it."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from tvm_sparse.ops.ieee import let
from tvm_sparse.schedules.blocks import map_functions, nodes


@tvm.transform.module_pass(opt_level=0, name="BindFactors")
class BindFactors:
    """Bind factors to variables of their own if they bind variables themselves.

    before: ``(let v = f(a) in v + v) * b``
    after:  ``let w = (let v = f(a) in v + v) in w * b``

    TVM makes vectors of a product of numbers in two visits, and takes the second binding of ``v``
    for a fault. A variable's value it visits once.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with such products."""
        return map_functions(mod, _bound)


def _bound(func: tirx.PrimFunc) -> tirx.PrimFunc:
    if not nodes(func.body, tirx.Let):
        return func
    body = tvm_ffi.structural_map(func.body, (tirx.Mul, _product))
    return tirx.PrimFunc(func.params, body, func.ret_type, attrs=func.attrs)


def _product(node: tirx.Mul) -> Any:
    return _factor(node.a, lambda a: _factor(node.b, lambda b: tirx.Mul(a, b)))


def _factor(value: Any, product: Any) -> Any:
    return let(value, product) if nodes(value, tirx.Let) else product(value)
