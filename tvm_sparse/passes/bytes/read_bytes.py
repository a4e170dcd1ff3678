"""Element-wise operators read bytes, so that no kernel is spent on what these mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax, te
from tvm.ir import GenericConst

from tvm_sparse.base.memory import array_of
from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.ops.bytes.quantize import BOUND, Scale, dequantized_at, quantized, whole_steps
from tvm_sparse.ops.tensors.concatenate import concatenate
from tvm_sparse.passes.bytes.magnitudes import Magnitudes
from tvm_sparse.passes.bytes.quantization import meaning_of, zero_of
from tvm_sparse.passes.graph.elementwise import ELEMENTWISE
from tvm_sparse.passes.graph.rewrite import (
    Rewriter,
    count_uses,
    op_name,
    rewrite,
    same_shape,
    shape_of,
)
from tvm_sparse.passes.lower.lower_concatenate import joined

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
}


class _ReadBytesRule:
    """The rule; ``unmade`` are the ``quantize`` whose bytes are never made, and their sizes."""

    def __init__(self, mod: tvm.IRModule) -> None:
        self.unmade, self.magnitudes = _unmade(mod["main"]), Magnitudes(mod)

    def __call__(self, rewriter: Rewriter, call: relax.Call) -> Any | None:
        name = op_name(call)
        if name == "quantize" and (zero := zero_of(call)) is not None:
            return self._quantized(rewriter, call, Scale(str(call.ty.dtype), 1.0, zero))
        if name == "dequantize" and str(call.args[0].ty.dtype) == FLOAT_SUMS:
            return call.args[0]
        return _combined(rewriter, call) if _adds(call) else _joined(rewriter, call)

    def _quantized(self, rewriter: Rewriter, call: relax.Call, scale: Scale) -> Any | None:
        """Return ``call``, of steps, as floats if its bytes are never made; faster if bounded."""
        size = self._unmade(rewriter.original)
        bound = self.magnitudes.of(rewriter.original.args[0])
        if size is not None:
            steps = rewriter.builder_.emit_te(
                lambda t: whole_steps(t, scale, bound), call.args[0], primfunc_name_hint="steps"
            )
            if float(array_of(size)) == 1:
                return steps
            # Here, not where they are read: TVM fuses what comes first with its layer first.
            return relax.op.multiply(steps, size)
        if bound >= BOUND:
            return None
        return rewriter.builder_.call_te(
            lambda t: quantized(t, scale, bound=bound),
            call.args[0],
            primfunc_name_hint="quantized",
        )

    def _unmade(self, call: relax.Call) -> Any | None:
        """Return what a step of ``call`` means if its bytes are never made."""
        return next((size for found, size in self.unmade if call.same_as(found)), None)


def _adds(call: Any) -> bool:
    """Whether ``call`` computes with two tensors of its own shape."""
    return op_name(call) in _OPERATORS and all(
        same_shape(shape_of(a), shape_of(call)) for a in call.args
    )


def _elementwise(call: Any) -> bool:
    """Whether TVM fuses ``call`` behind what makes one of its operands, of its own shape."""
    return op_name(call) in ELEMENTWISE and all(
        isinstance(a, GenericConst) or same_shape(shape_of(a), shape_of(call)) for a in call.args
    )


def _unmade(func: relax.Function) -> list[tuple[relax.Call, Any]]:
    """Return each ``quantize`` that only an operator in the same kernel reads, with its size.

    The operator reads floats. One of two tensors is fused behind the layer whose bytes come first;
    what the other one makes is stored.
    """
    uses, bound = count_uses(func), relax.analysis.get_var2val(func)
    order = [binding.var for block in func.body.blocks for binding in block.bindings]
    found = []
    for call in filter(_elementwise, bound.values()):
        made = {}
        for argument in call.args:
            source = bound.get(argument)
            if op_name(source) == "dequantize" and uses.get(argument) == 1:
                var = source.args[0]
                maker = bound.get(var)
                plain = op_name(maker) == "quantize" and uses.get(var) == 1
                if plain and zero_of(maker) == _zero(source):
                    made[var] = source.args[1]
        if made:
            first = min(made, key=order.index)
            found.append((bound[first], made[first]))
    return found


def _zero(call: relax.Call) -> int:
    """Return the zero point of ``dequantize``."""
    return int(array_of(call.args[2]).reshape(()))


def _combined(rewriter: Rewriter, call: relax.Call) -> Any | None:
    """Return the operator on bytes where operands are what bytes mean."""
    meanings = [meaning_of(rewriter, argument) for argument in call.args]
    if not any(meanings):
        return None
    name = op_name(call)
    operands = [m.bytes if m else a for m, a in zip(meanings, call.args, strict=True)]
    scales = [m.scale if m else None for m in meanings]

    def combined(*tensors: te.Tensor) -> te.Tensor:
        def at(*index: Any) -> Any:
            pairs = zip(tensors, scales, strict=True)
            return _OPERATORS[name](*(_value(t, s, index) for t, s in pairs))

        return te.compute(tensors[0].shape, at, name)

    return rewriter.builder_.call_te(combined, *operands, primfunc_name_hint=f"{name}_bytes")


def _joined(rewriter: Rewriter, call: relax.Call) -> Any | None:
    """Return the concatenation of bytes where pieces are what these mean."""
    found = joined(rewriter, call)
    if found is None:
        return None
    pieces, axis = found
    meanings = [meaning_of(rewriter, piece) for piece in pieces]
    if not any(meanings):
        return None
    scales = [m.scale if m else None for m in meanings]
    return rewriter.builder_.call_te(
        lambda *tensors: concatenate(tensors, axis, lambda i, t, at: _value(t, scales[i], at)),
        *(m.bytes if m else p for m, p in zip(meanings, pieces, strict=True)),
        primfunc_name_hint="concatenate_bytes",
    )


def _value(tensor: te.Tensor, scale: Scale | None, index: tuple[Any, ...]) -> Any:
    return tensor(*index) if scale is None else dequantized_at(tensor, scale, index)


@tvm.transform.module_pass(opt_level=0, name="ReadBytes")
@dataclass(frozen=True)
class ReadBytes:
    """Let sums, products and concatenations of tensors read quantized operands themselves.

    before: ``add(y, dequantize(q))`` --> after: ``call_tir(add_bytes, (y, q))``

    Fused with the layer that writes ``q``, a ``dequantize`` of its own would store floats. Bytes
    that only an element-wise operator reads, in the kernel that makes them, are never made:

    before: ``add(dequantize(quantize(y)), dequantize(q))``
    after: ``call_tir(add_bytes, (multiply(call_tir(steps, (y,)), size), q))``
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with fewer ``dequantize``."""
        return rewrite(mod, _ReadBytesRule(mod))
