"""Element-wise operators behind views of a convolution move before these, where they fuse."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.ir import GenericConst

from tvm_sparse.base.memory import array_of
from tvm_sparse.passes.canonical.sink_permutes import axes_of
from tvm_sparse.passes.graph.convolution import CONVOLUTIONS
from tvm_sparse.passes.graph.elementwise import ELEMENTWISE
from tvm_sparse.passes.graph.rewrite import (
    Rewriter,
    constant,
    name_of,
    op_name,
    rewrite,
    same_shape,
    shape_of,
    static_shape,
)

VIEWS = ("reshape", "permute_dims")

MOST_CUT = 1.25
"""Elements of a tensor over those of a slice, all of which are computed if the slice comes last."""

MOST_REPEATED = 1 << 16
"""Elements of a constant that is repeated to have the shape before a reshape."""


@dataclass(frozen=True)
class _HoistElementwiseRule:
    functions: frozenset[str]

    def __call__(self, rewriter: Rewriter, call: relax.Call) -> Any | None:
        if op_name(call) not in ELEMENTWISE:
            return None
        moving = [a for a in call.args if isinstance(a, relax.Var)]
        if len(moving) != 1:
            return None
        view = rewriter.resolve(moving[0])
        same = same_shape(shape_of(call), shape_of(moving[0]))
        if not same or not _is_view(view) or not self._computed(rewriter, view):
            return None
        operands = [view.args[0] if a.same_as(moving[0]) else _before(view, a) for a in call.args]
        if None in operands:
            return None
        plain = rewriter.emit(relax.Call(call.op, operands, call.attrs, call.ty_args))
        further = self(rewriter, rewriter.resolve(plain))
        source = plain if further is None else rewriter.emit(further)
        return relax.Call(view.op, [source, *view.args[1:]], view.attrs)

    def _computed(self, rewriter: Rewriter, expr: Any) -> bool:
        """Whether ``expr`` is a view of what a convolution gives, element-wise steps included."""
        while _is_view(expr) or op_name(expr) in ELEMENTWISE:
            expr = rewriter.resolve(expr.args[0])
        if op_name(expr) == "call_tir":
            return expr.args[0].name_hint in self.functions
        return op_name(expr) in CONVOLUTIONS


def _is_view(expr: Any) -> bool:
    """Whether ``expr`` is a reshape, a transposition, or a slice that keeps most of a tensor."""
    if op_name(expr) != "strided_slice":
        return op_name(expr) in VIEWS
    whole, left = static_shape(expr.args[0]), static_shape(expr)
    return whole is not None and left is not None and math.prod(whole) <= MOST_CUT * math.prod(left)


def _before(view: relax.Call, operand: Any) -> Any | None:
    """Return a constant operand as it is before ``view``; ``None`` if it cannot be."""
    if not isinstance(operand, GenericConst):
        return operand
    value, rank = array_of(operand), len(shape_of(view) or ())
    if value.ndim == 0:
        return operand
    value = value.reshape([1] * (rank - value.ndim) + list(value.shape))
    if op_name(view) == "permute_dims":
        moved = np.ascontiguousarray(value.transpose(np.argsort(axes_of(view))))
        return constant(moved, name_of(operand))
    before, after = static_shape(view.args[0]), static_shape(view)
    if before is None or after is None:
        return None
    if op_name(view) == "strided_slice":
        cut = zip(before, after, value.shape, strict=True)
        return operand if all(a == b or extent == 1 for a, b, extent in cut) else None
    found = reshaped(value, before, after)
    return None if found is None else constant(found, name_of(operand))


def reshaped(value: np.ndarray, before: Sequence[int], after: Sequence[int]) -> np.ndarray | None:
    """Return what is broadcast to ``before`` as ``value`` is to ``after``; repeated if need be."""
    if 0 in after:
        return None
    wide, shape = [1] * len(after), [1] * len(before)
    for left, right in runs(before, after):
        if math.prod(value.shape[axis] for axis in right) > 1:
            for extents, shapes, axes in ((wide, after, right), (shape, before, left)):
                for axis in axes:
                    extents[axis] = shapes[axis]
    if math.prod(wide) > max(MOST_REPEATED, value.size):
        return None
    return np.broadcast_to(value, wide).reshape(shape)


def runs(before: Sequence[int], after: Sequence[int]) -> Iterator[tuple[range, range]]:
    """Yield the axes of two shapes of the same elements that a reshape keeps apart from others."""
    i = j = 0
    while i < len(before) and j < len(after):
        left, right, a, b = i, j, before[i], after[j]
        i, j = i + 1, j + 1
        while a != b:
            if a < b:
                a, i = a * before[i], i + 1
            else:
                b, j = b * after[j], j + 1
        yield range(left, i), range(right, j)
    yield range(i, len(before)), range(j, len(after))


@tvm.transform.module_pass(opt_level=0, name="HoistElementwise")
@dataclass(frozen=True)
class HoistElementwise:
    """Move element-wise operators on constants before reshapes, transpositions and slices.

    before: ``relu(add(permute_dims(reshape(conv2d(x, w))), b))``
    after:  ``permute_dims(reshape(relu(add(conv2d(x, w), repeated b))))``

    There they fuse with the convolution. ``functions`` are names of functions that are convolutions
    too.
    """

    functions: frozenset[str] = frozenset()

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with element-wise operators where they fuse."""
        return rewrite(mod, _HoistElementwiseRule(self.functions))
