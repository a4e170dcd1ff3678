"""How large the numbers of a quantised network can be, whatever its inputs are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.ir import GenericConst

from tvm_sparse.memory import array_of
from tvm_sparse.passes.elementwise import ELEMENTWISE
from tvm_sparse.passes.rewrite import op_name

LARGEST = 1e30
"""Beyond it a float may overflow on the way, and nothing is known."""


class Magnitudes:
    """Bounds of absolute values of the tensors of a module's ``main``.

    They follow from the types of integers, from constants, and from operators between them. A
    tensor with a bound has no NaN.
    """

    def __init__(self, mod: tvm.IRModule) -> None:
        self.bound = relax.analysis.get_var2val(mod["main"])
        self.known: dict[Any, float] = {}

    def of(self, expr: Any) -> float:
        """Return a bound of the absolute values of ``expr``; infinity if there is none."""
        if isinstance(expr, GenericConst):
            return _largest(array_of(expr))
        if expr not in self.known:
            found = self._of(expr, self.bound.get(expr))
            self.known[expr] = found if found < LARGEST else math.inf
        return self.known[expr]

    def _of(self, var: Any, call: Any) -> float:
        dtype = str(getattr(var.ty, "dtype", ""))
        if dtype.startswith(("int", "uint")):
            return float(max(-int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)))
        name = op_name(call)
        if name == "dequantize":
            size, zero = (self.of(argument) for argument in call.args[1:])
            return (self.of(call.args[0]) + zero) * size
        traits = ELEMENTWISE.get(name)
        if traits is None or traits.bound is None:
            return math.inf
        operands = [self.of(argument) for argument in call.args]
        return traits.bound(*operands) if max(operands) < math.inf else math.inf


def _largest(array: np.ndarray) -> float:
    """Return the largest absolute value; infinity if one is not finite, or none is a number."""
    if array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        return math.inf
    return float(np.abs(array.astype(np.float64)).max(initial=0))
