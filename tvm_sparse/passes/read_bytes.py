"""Element-wise operators read bytes, so that no kernel is spent on what these mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax, te

from tvm_sparse.ops.quantise import Scale, dequantised_at
from tvm_sparse.passes.quantisation import meaning_of
from tvm_sparse.passes.rewrite import Rewriter, op_name, rewrite, same_shape, shape_of

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
}


def _rule(sweep: Rewriter, call: relax.Call) -> Any | None:
    name = op_name(call)
    if name not in _OPERATORS or not all(
        same_shape(shape_of(a), shape_of(call)) for a in call.args
    ):
        return None
    meanings = [meaning_of(sweep, argument) for argument in call.args]
    if not any(meanings):
        return None
    operands = [m.bytes if m else a for m, a in zip(meanings, call.args, strict=True)]
    scales = [m.scale if m else None for m in meanings]

    def combined(*tensors: te.Tensor) -> te.Tensor:
        def at(*index: Any) -> Any:
            pairs = zip(tensors, scales, strict=True)
            return _OPERATORS[name](*(_value(t, s, index) for t, s in pairs))

        return te.compute(tensors[0].shape, at, name)

    return sweep.builder_.call_te(combined, *operands, primfunc_name_hint=f"{name}_bytes")


def _value(tensor: te.Tensor, scale: Scale | None, index: tuple[Any, ...]) -> Any:
    return tensor(*index) if scale is None else dequantised_at(tensor, scale, index)


@tvm.transform.module_pass(opt_level=0, name="ReadBytes")
@dataclass(frozen=True)
class ReadBytes:
    """Let sums and products of tensors read quantised operands themselves.

    before: ``add(y, dequantize(q))`` --> after: ``call_tir(add_bytes, (y, q))``

    Fused with the layer that writes ``q``, a ``dequantize`` of its own would store floats.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with fewer ``dequantize``."""
        return rewrite(mod, _rule)
