"""What pooling means: TVM's own definitions are scalar loops, and drop NaN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax

from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.ops.tensors import max_pool as windows
from tvm_sparse.ops.tensors.avg_pool import avg_pool
from tvm_sparse.ops.tensors.row_pool import MAXIMUM, mean, row_pool
from tvm_sparse.ops.tensors.windows import Axis, chunks_of
from tvm_sparse.passes.graph.rewrite import Rewriter, op_name, rewrite, static_shape
from tvm_sparse.passes.graph.stock import stock
from tvm_sparse.passes.lower.adaptive_pooling import lower_adaptive

POOLS = tuple(f"nn.{kind}_pool{rank}d" for kind in ("max", "avg") for rank in (1, 2, 3))


def max_pool(builder: relax.BlockBuilder, call: relax.Call) -> Any:
    """Define max pooling over any number of axes."""
    attrs, shape, layout = call.attrs, call.ty.shape, str(call.attrs.layout)
    if shape is None or str(attrs.out_layout) not in ("", layout) or len(layout) != len(shape):
        return stock(builder, call)
    spatial = [a for a, letter in enumerate(layout) if letter not in "NC"]
    before, after = (list(attrs.padding)[i * len(spatial) :][: len(spatial)] for i in (0, 1))
    behind = [None if attrs.ceil_mode else int(border) for border in after]
    lists = (attrs.pool_size, attrs.strides, attrs.dilation, before)
    window, strides, dilation, padding = ([int(v) for v in values] for values in lists)

    def compute(x: Any, extents: Any) -> Any:  # in the symbols of ``x``, as an argument is
        known = (spatial, window, strides, dilation, padding)
        return windows.max_pool(x, *known, list(extents), behind)

    hint = op_name(call)[3:]
    return builder.call_te(compute, call.args[0], list(shape.values), primfunc_name_hint=hint)


def mean_pool(builder: relax.BlockBuilder, call: relax.Call) -> Any:
    """Define average pooling of floats where windows overlap and columns lie side by side.

    Neighbours in steps of one are whole vectors for TVM's definition, too, which is faster then.
    """
    axes = _overlapping(call)
    if axes is None or axes[-1].stride == 1 or len(axes) < 2:
        return stock(builder, call)
    counts = bool(call.attrs.count_include_pad)
    return builder.call_te(
        lambda x: avg_pool(x, axes, counts_borders=counts),
        call.args[0],
        primfunc_name_hint=op_name(call)[3:],
    )


def _overlapping(call: relax.Call) -> list[Axis] | None:
    """Return the axes of a pooling of fp32 planes whose windows overlap, else ``None``.

    All windows have elements, and none of an average goes beyond the borders.
    """
    attrs, before, after = call.attrs, static_shape(call.args[0]), static_shape(call)
    layout = str(attrs.layout)
    if before is None or after is None or not layout.startswith("NC"):
        return None
    if str(attrs.out_layout) not in ("", layout) or str(call.ty.dtype) != FLOAT_SUMS:
        return None
    rank = len(layout) - 2
    lists = (attrs.pool_size, attrs.strides, attrs.dilation, attrs.padding)
    numbers = zip(range(2, 2 + rank), *([int(v) for v in values] for values in lists), strict=False)
    axes = [Axis(a, before[a], after[a], *rest) for a, *rest in numbers]
    behind = [int(p) for p in attrs.padding][rank:]
    whole = "max" in op_name(call) or all(
        int(axis.touched()) <= axis.border + axis.extent + last
        for axis, last in zip(axes, behind, strict=True)
    )
    apart = all(axis.size <= axis.stride and not axis.border for axis in axes)
    near = all(axis.is_near() for axis in axes)
    return None if apart or not whole or not near else axes


def _lower(rewriter: Rewriter, call: relax.Call) -> Any | None:
    adaptive = lower_adaptive(rewriter, call)
    if adaptive is not None:
        return adaptive
    axes = _overlapping(call) if op_name(call) in POOLS else None
    # Windows of single columns are whole vectors for any definition.
    chunks = chunks_of(axes[-1]) if axes and axes[-1].size > 1 else None
    if axes is None or chunks is None:
        return None
    name, pooling = op_name(call)[3:], MAXIMUM
    if name.startswith("avg"):
        pooling = mean(axes, counts_borders=bool(call.attrs.count_include_pad))
    return rewriter.builder_.call_te(
        lambda x: row_pool(x, axes, chunks, pooling), call.args[0], primfunc_name_hint=name
    )


@tvm.transform.module_pass(opt_level=0, name="LowerPools")
@dataclass(frozen=True)
class LowerPools:
    """Pool overlapping and adaptive windows of fp32 planes by rows, and their columns by shuffles.

    Others keep their definition, which fuses.

    before: ``avg_pool2d(x: (n, c, h, w), pool_size=3, strides=2)``
    after:  ``call_tir(avg_pool2d, (x,))``
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return the lowered module."""
        return rewrite(mod, _lower)
