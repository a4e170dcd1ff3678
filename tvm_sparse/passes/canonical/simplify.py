"""Bring the importer's operators to fewer, simpler forms that later passes know."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx

from tvm_sparse.base.memory import array_of
from tvm_sparse.passes.graph.rewrite import (
    Rewriter,
    constant,
    name_of,
    op_name,
    rewrite,
    same_shape,
    shape_of,
    shape_of_type,
    static_shape,
)


def _simplify(rewriter: Rewriter, call: relax.Call) -> Any | None:
    if isinstance(call, relax.TupleGetItem):
        return _piece(rewriter, call)
    name = op_name(call)
    rule = _RULES.get(name)
    return rule(rewriter, call) if rule else None


def _as_reshape(rewriter: Rewriter, call: relax.Call) -> Any:
    """``squeeze``/``expand_dims``/``flatten`` --> ``reshape`` (layout conversion dies on some)."""
    return _reshape(
        rewriter, rewriter.builder_.normalize(relax.op.reshape(call.args[0], call.ty.shape))
    )


def _reshape(rewriter: Rewriter, call: relax.Call) -> Any:
    """Drop a reshape that changes nothing, merge two, and move one above a linear layer."""
    source, shape = call.args[0], shape_of(call)
    if same_shape(shape, shape_of(source)):
        return source
    inner = rewriter.resolve(source)
    if op_name(inner) == "reshape":
        merged = rewriter.builder_.normalize(relax.op.reshape(inner.args[0], call.ty.shape))
        return _reshape(rewriter, merged)
    before = shape_of(source)
    if shape and before and same_shape(shape[-1:], before[-1:]):
        hoisted = _hoist(rewriter, inner, shape)
        return call if hoisted is None else hoisted
    return call


def _hoist(rewriter: Rewriter, inner: Any, shape: list[Any]) -> Any | None:
    """``reshape(matmul(x, w))`` --> ``matmul(reshape(x), w)``, so that epilogues stay together."""
    name = op_name(inner)
    if name not in ("matmul", "add"):
        return None
    operand = rewriter.constant(inner.args[1])
    if operand is None or len(shape_of(inner.args[1]) or ()) != {"matmul": 2, "add": 1}[name]:
        return None
    x = inner.args[0]
    lead = [*shape[:-1], (shape_of(x) or [0])[-1]]
    moved = rewriter.builder_.normalize(relax.op.reshape(x, relax.ShapeExpr(lead)))
    x = rewriter.emit(_reshape(rewriter, moved))
    op = relax.op.matmul if name == "matmul" else relax.op.add
    return op(x, operand)


def _broadcast_to(_rewriter: Rewriter, call: relax.Call) -> Any | None:
    return call.args[0] if same_shape(shape_of(call), shape_of(call.args[0])) else None


def _tile(rewriter: Rewriter, call: relax.Call) -> Any | None:
    """``tile`` --> ``reshape(broadcast_to(reshape))``: of remainders LLVM makes wrong code.

    It does for AVX-512 where several axes repeat, in TVM's own definition.
    """
    before, after = static_shape(call.args[0]), static_shape(call)
    if before is None or after is None or 0 in after:
        return None
    inner = (1,) * (len(after) - len(before)) + before
    apart = [part for extent in inner for part in (1, extent)]
    pairs = zip(after, inner, strict=True)
    whole = [part for extent, own in pairs for part in (extent // own, own)]
    parts = rewriter.emit(relax.op.reshape(call.args[0], apart))
    return relax.op.reshape(rewriter.emit(relax.op.broadcast_to(parts, whole)), after)


def _clip(rewriter: Rewriter, call: relax.Call) -> Any | None:
    """``clip`` --> ``minimum(maximum(...))``: layout conversion does not know ``clip``.

    Bounds that every value of the type is within, infinities too, go away.
    """
    low, high = (getattr(a, "value", None) for a in call.args[1:])
    if low is None or high is None:
        return None
    result, dtype = call.args[0], str(call.ty.dtype)
    least, most = _range_of(dtype)
    if not low <= least:
        bound = relax.const(min(low, most), dtype)
        result = rewriter.emit(relax.op.maximum(result, bound))
    if not high >= most:
        bound = relax.const(max(high, least), dtype)
        result = rewriter.emit(relax.op.minimum(result, bound))
    return result


def _range_of(dtype: str) -> tuple[float, float]:
    if "float" in dtype:
        return -math.inf, math.inf
    return int(tirx.min_value(dtype).value), int(tirx.max_value(dtype).value)


def _add(rewriter: Rewriter, call: relax.Call) -> Any | None:
    """Constants go to the right; adding zeros of no larger shape goes away."""
    a, b = call.args
    if rewriter.constant(a) is not None and rewriter.constant(b) is None:
        return relax.op.add(b, a)
    zeros = rewriter.constant(b)
    if zeros is not None and same_shape(shape_of(call), shape_of(a)) and not array_of(zeros).any():
        return a
    return None


def _take(rewriter: Rewriter, call: relax.Call) -> Any | None:
    """``take`` of one constant position --> ``reshape(strided_slice)``: it fuses, is a view.

    ``take`` of all positions in order --> ``reshape``: PyTorch's ONNX exporter writes that for a
    tensor whose memory has another order (``as_strided``).
    """
    index, shape = rewriter.constant(call.args[1]), static_shape(call.args[0])
    if index is None or shape is None or call.attrs.axis is None:
        return None
    axis, places = int(call.attrs.axis) % len(shape), array_of(index)
    if places.ndim:
        if not np.array_equal(places.reshape(-1), np.arange(shape[axis])):
            return None
        same = places.ndim == 1
        return call.args[0] if same else relax.op.reshape(call.args[0], call.ty.shape)
    if not 0 <= int(places) < shape[axis]:
        return None  # what happens outside depends on the mode
    position = int(places)
    slice_ = relax.op.strided_slice(call.args[0], [axis], [position], [position + 1])
    return relax.op.reshape(rewriter.emit(slice_), call.ty.shape)


def _piece(rewriter: Rewriter, item: relax.TupleGetItem) -> Any | None:
    """``split(x)[i]`` --> ``strided_slice``: it fuses into what reads it, is a view."""
    call = rewriter.resolve(item.tuple_value)
    if op_name(call) != "split":
        return None
    shapes = [shape_of_type(piece) or [] for piece in call.ty.fields]
    if not all(shapes):
        return None
    axis, source = int(call.attrs.axis) % len(shapes[0]), call.args[0]
    extents = [shape[axis] for shape in shapes]
    if not all(isinstance(extent, int) for extent in extents):
        return None
    begin = sum(extents[: item.index])
    end = begin + extents[item.index]
    return relax.op.strided_slice(source, [axis], [begin], [end])


def _split(_rewriter: Rewriter, call: relax.Call) -> Any | None:
    """``split`` into one piece --> the tensor itself: no tuple, on which layout conversion dies."""
    return None if isinstance(call.ty, relax.TupleType) else call.args[0]


def _matmul(rewriter: Rewriter, call: relax.Call) -> Any | None:
    """``matmul(x, w: (1, k, n))`` --> ``matmul(x, w: (k, n))``, a linear layer."""
    weight, shape = rewriter.constant(call.args[1]), shape_of(call.args[0])
    rank = len(shape_of(call.args[1]) or ())
    if weight is None or shape is None or rank < 3:
        return None
    value = array_of(weight)
    if value.size != math.prod(value.shape[-2:]):
        return None
    matrix = constant(value.reshape(value.shape[-2:]), name_of(weight))
    product = relax.op.matmul(call.args[0], matrix, out_dtype=str(call.ty.dtype))
    if len(shape) >= rank:
        return product
    return relax.op.reshape(rewriter.emit(product), call.ty.shape)


_RULES = {
    "squeeze": _as_reshape,
    "expand_dims": _as_reshape,
    "flatten": _as_reshape,
    "reshape": _reshape,
    "split": _split,
    "broadcast_to": _broadcast_to,
    "tile": _tile,
    "clip": _clip,
    "add": _add,
    "matmul": _matmul,
    "take": _take,
}


@tvm.transform.module_pass(opt_level=0, name="Simplify")
@dataclass(frozen=True)
class Simplify:
    """Rewrite shape changes to ``reshape``, remove what does nothing, keep linears' epilogues.

    before: ``add(reshape(matmul(reshape(x), w)), b)`` --> after: ``add(matmul(x, w), b)``
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return the simplified module."""
        return rewrite(mod, _simplify)
