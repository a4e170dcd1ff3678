"""How large the numbers of a quantised network can be, whatever its inputs are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, s_tir
from tvm.ir import GenericConst

from tvm_sparse.memory import array_of
from tvm_sparse.numerics import INTEGER_SUMS
from tvm_sparse.ops.depthwise_columns import COLUMNS, ROWS_TOGETHER
from tvm_sparse.ops.marks import OPERATOR
from tvm_sparse.passes.elementwise import ELEMENTWISE
from tvm_sparse.passes.rewrite import op_name

LARGEST = 1e30
"""Beyond it a float may overflow on the way, and nothing is known."""

_EVEN = ("dense", "balanced", "depthwise", COLUMNS, ROWS_TOGETHER)
"""Operators that store as many weights for each feature, or more."""


class Magnitudes:
    """Bounds of absolute values of the tensors of a module's ``main``.

    They follow from integers, constants, and operators between them. A tensor with a bound has no
    NaN.
    """

    def __init__(self, mod: tvm.IRModule) -> None:
        self.mod, self.bound = mod, relax.analysis.get_var2val(mod["main"])
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
        name = op_name(call)
        if dtype == INTEGER_SUMS and name == "call_tir":
            return self._sums(call)
        if dtype.startswith(("int", "uint")):
            limits = np.iinfo(dtype)
            return float(max(-int(limits.min), int(limits.max)))
        if name == "dequantize":
            size, zero = (self.of(argument) for argument in call.args[1:])
            return (self.of(call.args[0]) + zero) * size
        traits = ELEMENTWISE.get(name)
        if traits is None or traits.bound is None:
            return math.inf
        operands = [self.of(argument) for argument in call.args]
        return traits.bound(*operands) if max(operands) < math.inf else math.inf

    def _sums(self, call: relax.Call) -> float:
        """Return a bound of the sums of a contraction of bytes."""
        most = float(np.iinfo(INTEGER_SUMS).max) + 1
        operators: list[str] = []

        def see(block: Any) -> None:
            operators.append(str(block.annotations.get(OPERATOR, "")))

        tvm_ffi.structural_walk(self.mod[call.args[0]].body, (s_tir.SBlock, see))
        if not any(operator in _EVEN for operator in operators):
            return most
        constants = [array_of(x) for x in call.args[1] if isinstance(x, GenericConst)]
        features = int(call.ty.shape[-1])
        weights = sum(a.size for a in constants if a.dtype == np.int8) / features
        offset = sum(_largest(a) for a in constants if a.dtype == np.int32)
        products = math.ceil(weights) * np.iinfo(np.uint8).max * -int(np.iinfo(np.int8).min)
        return min(most, float(products) + offset) if weights else most


def _largest(array: np.ndarray) -> float:
    """Return the largest absolute value; infinity if one is not finite, or none is a number."""
    if array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        return math.inf
    return float(np.abs(array.astype(np.float64)).max(initial=0))
