"""What a layer's sums mean, and in what steps its bytes count, become one factor a feature."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.ir import GenericConst

from tvm_sparse.base.memory import array_of
from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.passes.bytes.quantization import (
    Meaning,
    dequantize,
    is_whole,
    meaning_of,
    quantize,
    with_number,
    zero_of,
)
from tvm_sparse.passes.graph.rewrite import (
    Rewriter,
    constant,
    count_uses,
    op_name,
    rewrite,
    static_shape,
)

_LINEAR = ("add", "nn.relu", "concat")
"""Operators that a positive factor may pass."""

_ALIKE = 2.0**64
"""Sizes of steps whose ratio is less: no sum of theirs overflows."""


class _FoldScalesRule:
    """The rule, with what reads what before the module is rewritten."""

    def __init__(self, func: relax.Function) -> None:
        self.uses, self.bound = count_uses(func), relax.analysis.get_var2val(func)

    def __call__(self, rewriter: Rewriter, call: relax.Call) -> Any | None:
        zero = zero_of(call) if op_name(call) == "quantize" else None
        if zero is None:
            return None
        counted = rewriter.original.args[0]
        product = with_number(rewriter, call.args[0], "multiply")
        if product is None or product[1] <= 0 or self.uses.get(counted) != 1:
            return None
        var = self.bound[counted].args[0]
        if not self._takes(rewriter, var):
            return None
        steps = rewriter.emit(self._times(rewriter, var, product[1]))
        return quantize(steps, zero, str(call.ty.dtype))

    def _takes(self, rewriter: Rewriter, var: Any) -> bool:
        """Whether a factor of ``var`` can move into a constant that ``var`` is computed from.

        Everything that ``var`` is computed from is an integer or a dequantized byte. So no value
        overflows on the way.
        """
        call = self.bound.get(var)
        name = op_name(call)
        if name == "dequantize":
            return self._meaning(rewriter, var) is not None
        if self.uses.get(var) != 1:
            return False
        if name == "multiply":
            whole = is_whole(self.bound.get(call.args[0]))
            whole = whole or self._meaning(rewriter, call.args[0]) is not None
            known = rewriter.constant(call.args[1]) is not None
            return whole and (known or self._meaning(rewriter, call.args[1]) is not None)
        return name in _LINEAR and all(
            rewriter.constant(a) is not None or self._takes(rewriter, a) for a in _operands(call)
        )

    def _meaning(self, rewriter: Rewriter, var: Any) -> Meaning | None:
        """Return the bytes whose meaning ``var`` is."""
        if op_name(self.bound.get(var)) != "dequantize":
            return None
        return meaning_of(rewriter, rewriter.visit_expr(var))

    def _times(self, rewriter: Rewriter, expr: Any, factor: float) -> Any:
        """Return ``expr`` times ``factor``."""
        found = rewriter.constant(expr)
        if found is not None:
            value = array_of(found)
            return constant(value * value.dtype.type(factor))
        call = self.bound[expr]
        if op_name(call) == "dequantize":
            meaning = self._meaning(rewriter, expr)
            assert meaning is not None
            single = np.dtype(FLOAT_SUMS).type
            size = float(single(meaning.scale.scale) * single(factor))
            return dequantize(meaning.bytes, replace(meaning.scale, scale=size))
        if op_name(call) == "multiply":
            return self._product(rewriter, call, factor)
        if op_name(call) == "add" and (total := self._added(rewriter, call, factor)) is not None:
            return total
        operands = [self._times(rewriter, operand, factor) for operand in _operands(call)]
        emitted = [x if isinstance(x, GenericConst) else rewriter.emit(x) for x in operands]
        if op_name(call) == "concat":
            return relax.op.concat(emitted, call.attrs.axis)
        return relax.Call(call.op, emitted, call.attrs)

    def _added(self, rewriter: Rewriter, call: relax.Call, factor: float) -> Any | None:
        """Return the sum ``call`` of what two tensors of bytes mean times ``factor``.

        It is counted in steps of the first, so that the product comes last: there it may be one
        instruction with the rounding.
        """
        first, second = (self._meaning(rewriter, operand) for operand in call.args)
        if first is None or second is None:
            return None
        single = np.dtype(FLOAT_SUMS).type
        size, other = single(first.scale.scale), single(second.scale.scale)
        with np.errstate(all="ignore"):
            ratio, product = other / size, size * single(factor)
        if not (1 / _ALIKE < ratio < _ALIKE and 0 < product < np.inf):
            return None
        left = dequantize(first.bytes, replace(first.scale, scale=1.0))
        right = dequantize(second.bytes, replace(second.scale, scale=float(ratio)))
        total = rewriter.emit(relax.op.add(rewriter.emit(left), rewriter.emit(right)))
        return relax.op.multiply(total, relax.const(product))

    def _product(self, rewriter: Rewriter, call: relax.Call, factor: float) -> Any:
        """Return the product ``call`` times ``factor``."""
        whole, own = call.args[0], call.args[1]
        if rewriter.constant(own) is None:
            return self._gated(rewriter, call, factor)
        if (meaning := self._meaning(rewriter, whole)) is not None:
            factor *= meaning.scale.scale
            steps = rewriter.emit(dequantize(meaning.bytes, replace(meaning.scale, scale=1.0)))
        else:
            steps = rewriter.visit_expr(whole)
        return relax.op.multiply(steps, self._times(rewriter, own, factor))

    def _gated(self, rewriter: Rewriter, call: relax.Call, factor: float) -> Any:
        """Return the product ``call`` of what two tensors of bytes mean times ``factor``.

        The larger one counts steps; a byte of the other, a gate, means what all sizes make of it.
        """
        first, second = (self._meaning(rewriter, operand) for operand in call.args)
        assert first is not None and second is not None
        single = np.dtype(FLOAT_SUMS).type
        with np.errstate(all="ignore"):
            size = single(first.scale.scale) * single(second.scale.scale) * single(factor)
        if not 0 < size < np.inf:
            product = rewriter.emit(relax.op.multiply(*map(rewriter.visit_expr, call.args)))
            return relax.op.multiply(product, relax.const(single(factor)))
        gate = min((first, second), key=lambda found: math.prod(static_shape(found.bytes) or ()))
        sizes = (float(size) if found is gate else 1.0 for found in (first, second))
        pairs = zip((first, second), sizes, strict=True)
        steps = [dequantize(found.bytes, replace(found.scale, scale=n)) for found, n in pairs]
        return relax.op.multiply(*map(rewriter.emit, steps))


def _operands(call: relax.Call) -> list[Any]:
    """Return the tensors that ``call`` computes with."""
    first = call.args[0]
    return list(first.fields if isinstance(first, relax.Tuple) else call.args)


@tvm.transform.module_pass(opt_level=0, name="FoldScales")
@dataclass(frozen=True)
class FoldScales:
    """Count a quantized layer's result in steps of its bytes at once.

    before: ``quantize(multiply(add(multiply(astype(sums), factors), bias), 1 / s))``
    after:  ``quantize(add(multiply(astype(sums), factors / s), bias / s))``

    Concatenations of quantized tensors likewise; sums of two are counted in steps of the first:

    before: ``quantize(multiply(add(dequantize(p, r), dequantize(q, t)), 1 / s))``
    after:  ``quantize(multiply(add(dequantize(p, 1), dequantize(q, t / r)), r / s))``

    Products of two have all sizes in one of them:

    before: ``quantize(multiply(multiply(dequantize(p, r), dequantize(q, t)), 1 / s))``
    after:  ``quantize(multiply(dequantize(p, 1), dequantize(q, r * t / s)))``

    A result next to a half may be rounded to the other byte than in two steps.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with fewer products."""
        return rewrite(mod, _FoldScalesRule(mod["main"]))
