"""Transpositions move behind element-wise operators, where they meet others and cancel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.ir import GenericConst

from tvm_sparse.base.memory import array_of
from tvm_sparse.passes.canonical.any_order import in_any_order, reordered
from tvm_sparse.passes.canonical.shuffled_channels import shuffled
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


def _rule(rewriter: Rewriter, call: relax.Call) -> Any | None:
    name = op_name(call)
    if name == "concat":
        return _joined(rewriter, call)
    if name == "permute_dims":
        return merged(rewriter, call)
    if name == "reshape":
        return shuffled(rewriter, call)
    if name in _REDUCTIONS:
        return _reduced(rewriter, call)
    return sunk(rewriter, call) if name in ELEMENTWISE else None


def axes_of(call: relax.Call) -> list[int]:
    """Return the axes of a transposition, none of them negative."""
    rank = len(shape_of(call) or ())
    axes = call.attrs.axes
    return list(range(rank))[::-1] if axes is None else [int(a) % rank for a in axes]


def merged(rewriter: Rewriter, call: relax.Call) -> Any | None:
    """Join two transpositions; one that moves only axes of extent one is a reshape."""
    axes, source = axes_of(call), call.args[0]
    inner = rewriter.resolve(source)
    if op_name(inner) == "permute_dims":
        before = axes_of(inner)
        axes, source = [before[axis] for axis in axes], inner.args[0]
    shape = static_shape(source)
    if axes == sorted(axes):
        return source
    found = _through(rewriter, source, [axes.index(a) for a in range(len(axes))])
    if found is not None:
        return found
    long = [a for a in axes if shape is None or shape[a] != 1]
    if long == sorted(long):
        return relax.op.reshape(source, call.ty.shape)
    return relax.op.permute_dims(source, axes) if source is not call.args[0] else None


def _joined(rewriter: Rewriter, call: relax.Call) -> Any | None:
    """``concat(permute_dims(x), take(permute_dims(y), …))`` --> ``permute_dims(concat(x, …))``."""
    fields = getattr(rewriter.resolve(call.args[0]), "fields", ())
    moved = [rewriter.resolve(field) for field in fields]
    first = next((m for m in moved if op_name(m) == "permute_dims"), None)
    if first is None:
        return None
    joined = _through(rewriter, call, axes_of(first))
    return None if joined is None else relax.op.permute_dims(joined, axes_of(first))


def sunk(rewriter: Rewriter, call: relax.Call) -> Any | None:
    """``relu(permute_dims(x))`` --> ``permute_dims(relu(x))``, with constants permuted back."""
    moved = [rewriter.resolve(a) for a in call.args]
    found = [m for m in moved if op_name(m) == "permute_dims"]
    if not found:
        return None
    axes = axes_of(found[0])
    operands = [_source(rewriter, m, axes, call) for m in moved]
    if None in operands or not any(same_shape(shape_of(m), shape_of(call)) for m in found):
        return None
    plain = relax.Call(call.op, operands, call.attrs, call.ty_args)
    return relax.op.permute_dims(rewriter.emit(plain), axes)


def _source(rewriter: Rewriter, operand: Any, axes: list[int], call: relax.Call) -> Any | None:
    """Return what ``operand`` is before the transposition, ``None`` if it is not transposed so."""
    if isinstance(operand, GenericConst):
        value = array_of(operand)
        if value.ndim > len(axes):
            return None
        wide = value.reshape([1] * (len(axes) - value.ndim) + list(value.shape))
        back = np.ascontiguousarray(wide.transpose(np.argsort(axes)))
        return operand if value.ndim == 0 else constant(back, name_of(operand))
    whole = same_shape(shape_of(operand), shape_of(call))
    same = op_name(operand) == "permute_dims" and axes_of(operand) == axes
    if same or not whole or not isinstance(operand, relax.Call):
        return operand.args[0] if same else None
    return _through(rewriter, operand, axes)


def _reduced(rewriter: Rewriter, call: relax.Call) -> Any | None:
    """``mean(permute_dims(x), axis, keepdims)`` --> ``permute_dims(mean(x, …))``.

    Without ``keepdims``, where the axes that are left have the same order.
    """
    moved = rewriter.resolve(call.args[0])
    if op_name(moved) != "permute_dims" or call.attrs.axis is None:
        return None
    axes = axes_of(moved)
    over = [axes[int(axis) % len(axes)] for axis in call.attrs.axis]
    left = [axis for axis in axes if axis not in over]
    if not call.attrs.keepdims:
        plain = _REDUCTIONS[op_name(call)](moved.args[0], over)
        return plain if left == sorted(left) else None
    plain = _REDUCTIONS[op_name(call)](moved.args[0], over, keepdims=True)
    return relax.op.permute_dims(rewriter.emit(plain), axes)


def _through(rewriter: Rewriter, expr: Any, axes: list[int]) -> Any | None:
    """Return ``y`` with ``expr = permute_dims(y, axes)`` that needs no transposition, or ``None``.

    Elements at some places, resized axes, borders and joins are the same in any order of axes:
    enlarged planes, and what is joined with them, stay channels-last. They do not move down alone:
    a transposition of an enlarged tensor takes longer than one of what it was.
    """
    value = rewriter.resolve(expr)
    name = op_name(value)
    if name == "permute_dims":
        return value.args[0] if axes_of(value) == axes else None
    if name == "call_tir" and in_any_order(rewriter, value):
        inner = _through(rewriter, value.args[1].fields[0], axes)
        return None if inner is None else reordered(rewriter, value, inner, axes)
    if name in _THROUGH:
        return _THROUGH[name](rewriter, value, axes)
    fields = getattr(rewriter.resolve(value.args[0]), "fields", ()) if name == "concat" else ()
    found = [_through(rewriter, field, axes) for field in fields]
    if not found or None in found:
        return None
    axis = axes[int(value.attrs.axis or 0) % len(axes)]
    return rewriter.emit(relax.op.concat(found, axis))


def _taken(rewriter: Rewriter, call: relax.Call, axes: list[int]) -> Any | None:
    """Return elements at some places of one axis as :func:`_through` does."""
    places = call.args[1]
    if call.attrs.axis is None or len(shape_of(places) or ()) != 1:
        return None
    inner = _through(rewriter, call.args[0], axes)
    if inner is None:
        return None
    axis = axes[int(call.attrs.axis) % len(axes)]
    return rewriter.emit(relax.op.take(inner, places, axis, str(call.attrs.mode)))


def _bordered(rewriter: Rewriter, call: relax.Call, axes: list[int]) -> Any | None:
    """Return a tensor with borders as :func:`_through` does: axis ``i`` is ``axes[i]`` of it."""
    inner = _through(rewriter, call.args[0], axes)
    if inner is None:
        return None
    given, widths = call.attrs, [0] * (2 * len(axes))
    for i, axis in enumerate(axes):
        widths[2 * axis : 2 * axis + 2] = [int(w) for w in given.pad_width[2 * i : 2 * i + 2]]
    value = float(given.pad_value)
    return rewriter.emit(relax.op.nn.pad(inner, widths, str(given.pad_mode), value))


_REDUCTIONS = {
    name: getattr(relax.op, name) for name in ("mean", "sum", "max", "min", "prod", "variance")
}

_THROUGH = {"take": _taken, "nn.pad": _bordered}
"""By operator: what it is of the tensor before a transposition."""


@tvm.transform.module_pass(opt_level=0, name="SinkPermutes")
@dataclass(frozen=True)
class SinkPermutes:
    """Move transpositions down through element-wise operators, and drop those that cancel.

    before: ``permute_dims(relu(add(permute_dims(x, [0, 3, 1, 2]), b)), [0, 2, 3, 1])``
    after:  ``relu(add(x, permuted b))``
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with fewer transpositions."""
        return rewrite(mod, _rule)
