"""Weights too small for a processor's fast multiplier become zeros."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax
from tvm.ir import GenericConst

from tvm_sparse.base.denormals import flushed
from tvm_sparse.base.memory import array_of
from tvm_sparse.base.numerics import is_float
from tvm_sparse.passes.graph.rewrite import Rewriter, constant, name_of, op_name, place_of, rewrite

_PRODUCTS = {"matmul", *(f"nn.conv{dims}d" for dims in (1, 2, 3))}


class _Flush:
    """The rule; what is read many times (a recurrent weight in each step) is flushed only once."""

    def __init__(self) -> None:
        # With the operand, so that its address is not given to another constant.
        self.known: dict[Any, tuple[Any, Any]] = {}

    def __call__(self, rewriter: Rewriter, call: relax.Call) -> Any | None:
        if op_name(call) not in _PRODUCTS:
            return None
        args = [self._operand(rewriter, argument) for argument in call.args]
        if all(new is old for new, old in zip(args, call.args, strict=True)):
            return None
        return relax.Call(call.op, args, call.attrs)

    def _operand(self, rewriter: Rewriter, operand: Any) -> Any:
        weight = rewriter.constant(operand)
        if weight is None or not is_float(str(weight.ty.dtype)):
            return operand
        key = place_of(weight)
        if key not in self.known:
            self.known[key] = (_without(weight), weight)
        result = self.known[key][0]
        return operand if result is weight else result


def _without(weight: GenericConst) -> GenericConst:
    """Return a constant without denormal numbers, or ``weight`` itself."""
    before = array_of(weight)
    after = flushed(before)
    return weight if after is before else constant(after, name_of(weight))


@tvm.transform.module_pass(opt_level=0, name="FlushDenormals")
@dataclass(frozen=True)
class FlushDenormals:
    """Zero the denormal weights of linear layers and convolutions.

    before: ``conv2d(x, [0.5, 1e-40])`` --> after: ``conv2d(x, [0.5, 0])``
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` without denormal weights."""
        return rewrite(mod, _Flush())
