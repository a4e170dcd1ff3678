"""Convolutions between transpositions, whose neighbours want their tensors channels first."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import tvm
from tvm import relax
from tvm.ir import GenericConst

from tvm_sparse.base.numerics import FLOAT32
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.planes import plane_of
from tvm_sparse.ops.tensors.permute import Permutation, Step
from tvm_sparse.passes.canonical.sink_permutes import axes_of
from tvm_sparse.passes.graph.convolution import is_channels_last
from tvm_sparse.passes.graph.elementwise import ELEMENTWISE
from tvm_sparse.passes.graph.rewrite import Rewriter, count_uses, op_name, static_shape

FURTHEST = 1 << 30
"""Positions of a group's planes that places count surely."""


def last_to_first(rank: int) -> list[int]:
    """Return the axes that bring channels before ``rank`` spatial axes."""
    return [0, rank + 1, *range(1, rank + 1)]


def first_to_last(rank: int) -> list[int]:
    """Return the axes that take channels behind ``rank`` spatial axes."""
    return [0, *range(2, rank + 2), 1]


def before_transpositions(mod: tvm.IRModule) -> dict[relax.Call, bool]:
    """Return the channels-last convolutions whose results are read in another order only.

    Between a convolution and its transposition are reshapes and element-wise operators on constants
    at most, each of which is read once. Says of each whether nothing is transposed if its result is
    channels first.
    """
    func = mod["main"]
    uses = count_uses(func)
    calls: list[tuple[relax.Var, relax.Call]] = []

    def look(expr: relax.Expr) -> None:
        for block in expr.blocks if isinstance(expr, relax.SeqExpr) else []:
            bound = [(v.var, v.value) for v in block.bindings if isinstance(v, relax.VarBinding)]
            calls.extend((var, value) for var, value in bound if isinstance(value, relax.Call))

    relax.analysis.post_order_visit(func.body, look)
    reader = {a: call for call in calls for a in call[1].args if isinstance(a, relax.Var)}

    def steps(var: Any) -> Iterator[Step]:
        """Yield the reshapes and transpositions behind a convolution."""
        while uses.get(var) == 1 and var in reader:
            following, value = reader[var]
            name, shape = op_name(value), static_shape(value)
            if name == "permute_dims":
                yield name, axes_of(value)
            elif name == "reshape" and shape is not None:
                yield name, shape
            else:
                others = (a for a in value.args if not a.same_as(var))
                if name not in ELEMENTWISE or not all(isinstance(a, GenericConst) for a in others):
                    return
            var = following

    found = {}
    for var, value in calls:
        shape = static_shape(value)
        if is_channels_last(value) and shape is not None:
            order = list(steps(var))
            last = Permutation.of_steps(shape, order)
            rank = len(shape) - 2
            back = "permute_dims", first_to_last(rank)
            turned = [shape[axis] for axis in last_to_first(rank)]
            first = Permutation.of_steps(turned, [back, *order])
            if last and first and last.axes and last.axes[-1] != len(last.axes) - 1:
                found[value] = len(first.axes) < 2
    return found


def planes_of(
    rewriter: Rewriter, call: relax.Call, contraction: Contraction
) -> tuple[relax.Expr, Contraction] | None:
    """Return the channels-first tensor that a convolution reads transposed, and what it computes.

    ``None`` if there is no such tensor, or no operator of ours computes that.
    """
    source = rewriter.resolve(call.args[0])
    rank = len(call.attrs.strides)
    if op_name(source) != "permute_dims" or axes_of(source) != first_to_last(rank):
        return None
    c, shape, groups = contraction, static_shape(source.args[0]), int(call.attrs.groups)
    if shape is None or c.numerics != FLOAT32 or not (groups > 1 or _plain(c)):
        return None
    if c.depthwise:  # a plane each, however many features read it
        c = replace(c, depthwise=False, columns=1, groups=groups)
    padding = tuple(int(p) for p in call.attrs.padding)
    planes = _on_a_line(replace(c, padded=shape[2:], borders=padding[:rank]))
    near = plane_of(planes, 1).step * c.columns < FURTHEST
    return (source.args[0], planes) if near else None


def _plain(c: Contraction) -> bool:
    """Whether planes of all channels, which the first cache does not hold, are read but in lines.

    Windows of lines that are far apart are faster where channels lie side by side.
    """
    return math.prod(c.taps) == 1


def _on_a_line(c: Contraction) -> Contraction:
    """Return ``c`` on one spatial axis, if each output depends on the pixel at its place."""
    images, spatial = c.lead[: -len(c.taps)], c.lead[-len(c.taps) :]
    if spatial != c.padded or {*c.taps, *c.strides} != {1}:
        return c
    line, one = (math.prod(spatial),), (1,)
    return replace(
        c, lead=(*images, *line), padded=line, borders=(), taps=one, strides=one, dilation=one
    )
