"""Batch norm at inference is an affine map: fold it into the convolution before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tvm_sparse.base.memory import array_of
from tvm_sparse.passes.graph.rewrite import (
    Rewriter,
    constant,
    count_uses,
    name_of,
    op_name,
    rewrite,
    shape_of,
)


@dataclass(frozen=True)
class _Fold:
    """The rule, with what must be known of the module before it is rewritten."""

    bindings: dict[Any, Any]
    uses: dict[Any, int]

    def __call__(self, rewriter: Rewriter, item: Any) -> Any | None:
        if not isinstance(item, relax.TupleGetItem) or item.index != 0:
            return None
        norm = rewriter.resolve(item.tuple_value)
        if op_name(norm) != "nn.batch_norm" or norm.attrs.training:
            return None
        x, *params = norm.args
        constants = [c for p in params[:4] if (c := rewriter.constant(p)) is not None]
        if len(constants) < 4:
            return None
        gamma, beta, mean, variance = (array_of(c) for c in constants)
        gamma = gamma if norm.attrs.scale else np.ones_like(gamma)
        beta = beta if norm.attrs.center else np.zeros_like(beta)
        scale, shift = affine([gamma, beta, mean, variance], float(norm.attrs.epsilon))
        aligned = [1] * len(shape_of(x) or ())
        aligned[int(norm.attrs.axis)] = len(scale)
        conv = rewriter.resolve(x)
        weight = rewriter.constant(conv.args[1]) if _is_conv(conv) else None
        if weight is None or not self._read_once(rewriter.original):
            scaled = rewriter.emit(relax.op.multiply(x, constant(scale.reshape(aligned))))
            return relax.op.add(scaled, constant(shift.reshape(aligned)))
        # Scaling whole rows keeps every zero a zero, so patterns survive.
        value = array_of(weight)
        scaled_weight = value * scale.reshape(-1, *[1] * (value.ndim - 1))
        folded = constant(scaled_weight.astype(value.dtype, copy=False), name_of(weight))
        call = relax.Call(conv.op, [conv.args[0], folded], conv.attrs)
        return relax.op.add(rewriter.emit(call), constant(shift.reshape(aligned)))

    def _read_once(self, item: relax.TupleGetItem) -> bool:
        """Whether nothing but the batch norm reads the convolution (it must keep its weight)."""
        norm = self.bindings.get(item.tuple_value, item.tuple_value)
        return self.uses.get(norm.args[0], 0) == 1


def affine(params: list[np.ndarray], epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """Return ``(scale, shift)`` of ``[gamma, beta, mean, variance]``, computed in float64."""
    gamma, beta, mean, variance = (p.astype(np.float64) for p in params)
    scale = gamma / np.sqrt(variance + epsilon)
    shift = beta - mean * scale
    return scale.astype(params[0].dtype), shift.astype(params[0].dtype)


def _is_conv(expr: relax.Expr) -> bool:
    return op_name(expr) in ("nn.conv1d", "nn.conv2d", "nn.conv3d")


@tvm.transform.module_pass(opt_level=0, name="FoldBatchNorm")
@dataclass(frozen=True)
class FoldBatchNorm:
    """Fold inference batch norms.

    before: ``batch_norm(conv2d(x, w))`` --> after: ``add(conv2d(x, w * scale), shift)``; without a
    convolution before it: ``add(multiply(x, scale), shift)``.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` without batch norms that have constant statistics."""
        bindings: dict[Any, Any] = {}
        uses: dict[Any, int] = {}
        for _name, func in mod.functions_items():
            if isinstance(func, relax.Function):
                bindings |= dict(relax.analysis.get_var2val(func).items())
                uses |= count_uses(func)
        return rewrite(mod, _Fold(bindings, uses))
