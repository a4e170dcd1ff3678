"""Convolutions between transpositions, whose neighbours want their tensors channels first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import tvm
from tvm import relax
from tvm.ir import GenericConst

from tvm_sparse.numerics import FLOAT32
from tvm_sparse.ops.contraction import Contraction
from tvm_sparse.ops.planes import plane_of
from tvm_sparse.passes.convolution import is_channels_last
from tvm_sparse.passes.elementwise import ELEMENTWISE
from tvm_sparse.passes.rewrite import Rewriter, op_name, static_shape
from tvm_sparse.passes.sink_permutes import axes_of

FURTHEST = 1 << 30
"""Positions of a group's planes that places count surely."""


def last_to_first(rank: int) -> list[int]:
    """Return the axes that bring channels before ``rank`` spatial axes."""
    return [0, rank + 1, *range(1, rank + 1)]


def first_to_last(rank: int) -> list[int]:
    """Return the axes that take channels behind ``rank`` spatial axes."""
    return [0, *range(2, rank + 2), 1]


def before_transpositions(mod: tvm.IRModule) -> set[relax.Call]:
    """Return the channels-last convolutions whose results are read channels first only.

    Between a convolution and its transposition are element-wise operators on constants at most,
    each of which is read once.
    """
    readers: dict[Any, list[tuple[Any, Any]]] = {}
    bindings: list[tuple[Any, Any]] = []

    def look(expr: relax.Expr) -> None:
        if not isinstance(expr, relax.SeqExpr):
            return
        for block in expr.blocks:
            for binding in block.bindings:
                if isinstance(binding, relax.VarBinding):
                    bindings.append((binding.var, binding.value))
        if isinstance(expr.body, relax.Var):
            readers.setdefault(expr.body, []).append((None, None))

    relax.analysis.post_order_visit(mod["main"].body, look)
    for var, value in bindings:
        for operand in _operands(value):
            readers.setdefault(operand, []).append((var, value))

    def turned(var: Any, rank: int) -> bool:
        while len(readers.get(var, ())) == 1:
            ((following, value),) = readers[var]
            if op_name(value) == "permute_dims":
                return axes_of(value) == last_to_first(rank)
            others = [a for a in value.args if not a.same_as(var)] if value is not None else []
            known = all(isinstance(a, GenericConst) for a in others)
            if op_name(value) not in ELEMENTWISE or not known:
                return False
            var = following
        return False

    found = [(var, value) for var, value in bindings if is_channels_last(value)]
    return {value for var, value in found if turned(var, len(value.attrs.strides))}


def planes_of(
    sweep: Rewriter, call: relax.Call, contraction: Contraction
) -> tuple[relax.Expr, Contraction] | None:
    """Return the channels-first tensor that a convolution reads transposed, and what it computes.

    ``None`` if there is no such tensor, or no operator of ours computes that.
    """
    source = sweep.resolve(call.args[0])
    rank = len(call.attrs.strides)
    if op_name(source) != "permute_dims" or axes_of(source) != first_to_last(rank):
        return None
    c, shape = contraction, static_shape(source.args[0])
    if shape is None or c.depthwise or c.numerics != FLOAT32 or int(call.attrs.groups) == 1:
        return None
    padding = tuple(int(p) for p in call.attrs.padding)
    planes = replace(c, padded=shape[2:], borders=padding[:rank])
    near = plane_of(planes, 1).step * c.columns < FURTHEST
    return (source.args[0], planes) if near else None


def _operands(value: Any) -> list[Any]:
    if isinstance(value, relax.Call):
        found = list(value.args)
        return [v for a in found for v in (a.fields if isinstance(a, relax.Tuple) else [a])]
    if isinstance(value, relax.Tuple):
        return list(value.fields)
    if isinstance(value, relax.TupleGetItem):
        return [value.tuple_value]
    return [value] if isinstance(value, relax.Var) else []
