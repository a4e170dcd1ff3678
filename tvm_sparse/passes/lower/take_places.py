"""Pieces of one tensor that are joined again, as borders are, become elements at known places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tvm_sparse.ops.tensors.near_columns import chunks_of
from tvm_sparse.passes.graph.rewrite import Rewriter, constant, op_name, rewrite, static_shape
from tvm_sparse.passes.graph.views import begins_of


def _lower(rewriter: Rewriter, call: relax.Call) -> Any | None:
    """Columns are read by shuffles then; rows follow where their columns were."""
    shape = static_shape(call)
    if op_name(call) != "concat" or not shape or str(call.ty.dtype) == "bool":
        return None
    axis = int(call.attrs.axis or 0) % len(shape)
    fields = getattr(rewriter.resolve(call.args[0]), "fields", ())
    pieces = [_piece(rewriter, operand, axis) for operand in fields]
    source = pieces[0][0] if len(pieces) > 1 else None
    if source is None or not all(other.same_as(source) for other, _ in pieces):
        return None
    places = np.concatenate([found for _, found in pieces])
    columns = axis == len(shape) - 1
    if columns and chunks_of(places.tolist(), (static_shape(source) or ())[axis]) is None:
        return None
    if not columns and not (axis == len(shape) - 2 and _has_taken_columns(rewriter, source)):
        return None
    return relax.op.take(source, constant(places), axis)


def _has_taken_columns(rewriter: Rewriter, source: Any) -> bool:
    """Whether ``source`` is what this pass made of columns."""
    value = rewriter.resolve(source)
    if op_name(value) != "take" or rewriter.constant(value.args[1]) is None:
        return False
    return int(value.attrs.axis) == len(value.ty.shape) - 1


def _piece(rewriter: Rewriter, operand: Any, axis: int) -> tuple[Any, np.ndarray]:
    """Return the tensor that a piece along ``axis`` is of, and the places of its elements there."""
    value, shape = rewriter.resolve(operand), static_shape(operand) or ()
    name = op_name(value)
    whole = static_shape(value.args[0]) if name in _STEPS else None
    if whole and shape[:axis] == whole[:axis] and shape[axis + 1 :] == whole[axis + 1 :]:
        chosen = _STEPS[name](value, axis, whole, shape)
        if chosen is not None:
            source, places = _piece(rewriter, value.args[0], axis)
            return source, places[chosen]
    return operand, np.arange(shape[axis])


def _cut(call: relax.Call, axis: int, before: Any, after: Any) -> np.ndarray | None:
    begins = begins_of(call, before, after)
    return None if begins is None else begins[axis] + np.arange(after[axis])


def _turned(call: relax.Call, axis: int, before: Any, _after: Any) -> np.ndarray | None:
    same = int(call.attrs.axis) % len(before) == axis
    return np.arange(before[axis])[::-1] if same else None


def _repeated(_call: relax.Call, axis: int, before: Any, after: Any) -> np.ndarray | None:
    return np.zeros(after[axis], int) if before[axis] == 1 else None


_STEPS = {"strided_slice": _cut, "flip": _turned, "broadcast_to": _repeated}
"""By operator: which elements along an axis of its operand the result has, ``None`` if others."""


@tvm.transform.module_pass(opt_level=0, name="TakePlaces")
@dataclass(frozen=True)
class TakePlaces:
    """Read columns, and then rows, that a tensor repeats at its borders in one step an axis.

    before: ``concat((flip(strided_slice(x)), x, flip(strided_slice(x))), axis=-1)``
    after:  ``take(x, places, axis=-1)``, which is shuffles of whole vectors

    Other axes stay as they are: channels-last borders are whole vectors already.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return the module with other borders."""
        return rewrite(mod, _lower)
