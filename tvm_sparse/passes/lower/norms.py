"""Group, instance and layer norms, in two passes: no cancellation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import tvm
from tvm import relax, te

from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.tensors.column_moments import Columns, column_moments
from tvm_sparse.ops.tensors.moments import Rows, moments
from tvm_sparse.ops.tensors.standardise import Affine, Index, Statistics
from tvm_sparse.passes.graph.rewrite import Rewriter, op_name, rewrite, shape_of

NORMS = ("nn.group_norm", "nn.instance_norm", "nn.layer_norm")


def norm(builder: relax.BlockBuilder, call: relax.Call) -> Any:
    """Define a norm, whatever its axes and type are."""
    name = _hint(call)

    def compute(x: Any, *weights: Any) -> Any:
        epsilon, affine = float(call.attrs.epsilon), _affine(call, *weights)
        return _statistics(call, x).standardised(epsilon, name, affine)

    return builder.call_te(compute, *call.args, primfunc_name_hint=name)


def _hint(call: relax.Call) -> str:
    return op_name(call).removeprefix("nn.")


def _statistics(call: relax.Call, x: te.Tensor) -> Statistics:
    """Return what the elements of ``x``, the input of ``call``, are standardised by."""
    attrs = call.attrs
    if _hint(call) == "layer_norm":
        return Statistics.of(x, attrs.axes)
    groups = int(attrs.num_groups) if _hint(call) == "group_norm" else 0
    return Statistics.of(x, attrs.axes, int(attrs.channel_axis) % len(x.shape), groups)


def _affine(call: relax.Call, gamma: te.Tensor, beta: te.Tensor) -> Affine:
    """Return the factor and the offset: of a channel, or of a place in the normalised axes."""
    attrs, rank = call.attrs, len(call.ty.shape)
    named = attrs.axes if _hint(call) == "layer_norm" else [attrs.channel_axis]
    axes = [int(a) % rank for a in named]

    def affine(value: Any, index: Index) -> Any:
        place = tuple(index[a] for a in axes)
        sums = str(value.ty.dtype)
        if attrs.scale:
            value = value * gamma(*place).astype(sums)
        return value + beta(*place).astype(sums) if attrs.center else value

    return affine


def _places(statistics: Statistics) -> Rows | Columns | None:
    """Return where the elements lie that share a place, if they are whole vectors or open."""
    rows = statistics.rows()
    short = rows is not None and isinstance(rows.width, int) and rows.width < LANES
    return rows if rows is not None and not short else statistics.columns()


def _lower(rewriter: Rewriter, call: relax.Call) -> Any | None:
    shape = shape_of(call) if op_name(call) in NORMS else None
    if shape is None:
        return None
    places = _places(_statistics(call, te.placeholder(shape, str(call.ty.dtype))))
    if places is None:
        return None
    name, builder, epsilon = _hint(call), rewriter.builder_, float(call.attrs.epsilon)

    def found_in(x: te.Tensor) -> te.Tensor:
        own = cast("Rows | Columns", _places(_statistics(call, x)))  # in the symbols of ``x``
        if isinstance(own, Rows):
            return moments(x, own, epsilon)
        return column_moments(x, own, epsilon)

    found = builder.call_te(found_in, call.args[0], primfunc_name_hint=f"{name}_moments")

    def compute(x: Any, numbers: Any, *weights: Any) -> Any:
        made, affine = _statistics(call, x), _affine(call, *weights)
        return (made.by_rows if isinstance(places, Rows) else made.by_columns)(
            numbers, name, affine
        )

    x, *weights = call.args
    return builder.call_te(compute, x, rewriter.emit(found), *weights, primfunc_name_hint=name)


@tvm.transform.module_pass(opt_level=0, name="LowerNorms")
@dataclass(frozen=True)
class LowerNorms:
    """Find the statistics of norms whose elements, or whose channels, are whole vectors.

    Others keep their definition. How many of them there are, and how many elements, may be open.

    before: ``group_norm(x: (n, c, h, w), gamma, beta, num_groups, channel_axis=1, axes=[2, 3])``
    after:  ``call_tir(group_norm, (x, call_tir(moments, x), gamma, beta))``
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return the lowered module."""
        return rewrite(mod, _lower)
