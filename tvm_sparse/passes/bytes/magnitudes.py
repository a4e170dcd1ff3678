"""How large the numbers of a quantized network can be, whatever its inputs are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tvm
from tvm.ir import GenericConst

from tvm_sparse.base.memory import array_of
from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.passes.graph.elementwise import ELEMENTWISE
from tvm_sparse.passes.graph.rewrite import op_name

LARGEST = 1e30
"""Beyond it a float of single precision may overflow, and nothing is known."""


class Magnitudes:
    """Bounds of absolute values of the tensors of a module's ``main``.

    They follow from the types of integers, from constants, and from operators between them. A
    tensor with a bound has no NaN.
    """

    def __init__(self, mod: tvm.IRModule) -> None:
        self.known: dict[Any, float] = {}
        for block in mod["main"].body.blocks:
            for binding in block.bindings:
                found = self._result(binding.var, binding.value)
                self.known[binding.var] = found if found < LARGEST else math.inf

    def of(self, expr: Any) -> float:
        """Return a bound of the absolute values of ``expr``; infinity if there is none."""
        if isinstance(expr, GenericConst):
            return _largest(array_of(expr))
        return self.known.get(expr, _of_type(expr))

    def _result(self, var: Any, call: Any) -> float:
        """Return the bound of ``var``, to which ``call`` is bound."""
        if str(getattr(var.ty, "dtype", "")) != FLOAT_SUMS:
            return _of_type(var)
        name = op_name(call)
        if name == "dequantize":
            size, zero = (self.of(argument) for argument in call.args[1:])
            return (self.of(call.args[0]) + zero) * size
        traits = ELEMENTWISE.get(name)
        if traits is None or traits.bound is None:
            return math.inf
        operands = [self.of(argument) for argument in call.args]
        return traits.bound(*operands) if max(operands) < math.inf else math.inf


def _of_type(expr: Any) -> float:
    """Return the largest absolute value of an integer type, infinity of another one."""
    dtype = str(getattr(expr.ty, "dtype", ""))
    if not dtype.startswith(("int", "uint")):
        return math.inf
    return float(max(-int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)))


def _largest(array: np.ndarray) -> float:
    """Return the largest absolute value; infinity if one is not finite, or none is a number."""
    if array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        return math.inf
    return float(np.abs(array.astype(np.float64)).max(initial=0))
