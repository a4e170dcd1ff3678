"""Batch norm at inference is an affine map: fold it into the convolution before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
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
        dtype, aligned = gamma.dtype, [1] * len(shape_of(x) or ())
        aligned[int(norm.attrs.axis)] = len(scale)
        folded = self._folded(rewriter, x, scale)
        if folded is None:
            scaled = relax.op.multiply(x, constant(scale.astype(dtype).reshape(aligned)))
            return relax.op.add(
                rewriter.emit(scaled), constant(shift.astype(dtype).reshape(aligned))
            )
        # Rounded as the norm's own numbers are: a library takes no wider ones.
        sums = rewriter.emit(folded)
        offset = shift.astype(dtype).astype(np.dtype(str(sums.ty.dtype))).reshape(aligned)
        moved = relax.op.add(sums, constant(offset))
        if sums.ty.dtype == x.ty.dtype:
            return moved
        return relax.op.astype(rewriter.emit(moved), str(x.ty.dtype))

    def _folded(self, rewriter: Rewriter, x: Any, scale: np.ndarray) -> relax.Call | None:
        """Return the convolution that makes ``x``, scaled; None if its weight must stay.

        Between it and ``x`` its sums may be rounded.
        """
        conv = rewriter.resolve(x)
        if op_name(conv) == "astype":
            conv = rewriter.resolve(conv.args[0])
        weight = rewriter.constant(conv.args[1]) if _is_conv(conv) else None
        if weight is None or not self._read_once(rewriter.original):
            return None
        # Scaling whole rows keeps every zero a zero, so patterns survive.
        value = array_of(weight)
        wide = value * scale.reshape(-1, *[1] * (value.ndim - 1))
        scaled = wide.astype(value.dtype)
        if not _near(scaled, wide):
            return None
        return relax.Call(conv.op, [conv.args[0], constant(scaled, name_of(weight))], conv.attrs)

    def _read_once(self, item: relax.TupleGetItem) -> bool:
        """Whether nothing but the norm reads the convolution (it must keep its weight)."""
        norm = self.bindings.get(item.tuple_value, item.tuple_value)
        x = norm.args[0]
        made = self.bindings.get(x, x)
        values = (x, made.args[0]) if op_name(made) == "astype" else (x,)
        return all(self.uses.get(value, 0) == 1 for value in values)


def affine(params: list[np.ndarray], epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """Return ``(scale, shift)`` of ``[gamma, beta, mean, variance]`` in float64."""
    gamma, beta, mean, variance = (p.astype(np.float64) for p in params)
    scale = gamma / np.sqrt(variance + epsilon)
    return scale, beta - mean * scale


def _near(narrow: np.ndarray, wide: np.ndarray) -> bool:
    """Whether each row of a weight is rounded by its digits, and not cut off at the type's ends."""
    axes = tuple(range(1, wide.ndim))
    with np.errstate(over="ignore", invalid="ignore"):
        lost = np.sqrt(np.square(narrow.astype(np.float64) - wide).sum(axes))
        size = np.sqrt(np.square(wide).sum(axes))
    return bool((lost <= ml_dtypes.finfo(narrow.dtype).eps * size).all())


def _is_conv(expr: relax.Expr) -> bool:
    return op_name(expr) in ("nn.conv1d", "nn.conv2d", "nn.conv3d")


@tvm.transform.module_pass(opt_level=0, name="FoldBatchNorm")
@dataclass(frozen=True)
class FoldBatchNorm:
    """Fold inference batch norms.

    before: ``batch_norm(conv2d(x, w))`` --> after: ``add(conv2d(x, w * scale), shift)``; without a
    convolution before it: ``add(multiply(x, scale), shift)``. Sums that are rounded before the norm
    are rounded behind it instead, unless scaled weights would leave the range of their type.
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
