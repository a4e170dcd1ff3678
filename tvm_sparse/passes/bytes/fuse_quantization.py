"""Bytes flow between the layers of a quantized network: floats are what happens inside kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.ops.bytes.quantize import Scale
from tvm_sparse.passes.bytes.quantization import (
    BYTES,
    Meaning,
    dequantize,
    inverse,
    is_cast,
    meaning_of,
    quantize,
    scale_of,
    with_number,
)
from tvm_sparse.passes.bytes.rounded import rounded
from tvm_sparse.passes.graph.rewrite import Rewriter, count_uses, op_name, rewrite

Rule = Callable[[Rewriter, relax.Call], Any | None]


def _recognised(rewriter: Rewriter, call: relax.Call) -> Any | None:
    """Return what ``call`` is the last operator of: ``quantize`` or ``dequantize``."""
    name, dtype = op_name(call), str(getattr(call.ty, "dtype", ""))
    if dtype in BYTES:
        return rounded(rewriter, call, dtype)
    return meant_by(rewriter, call) if name == "multiply" and dtype == FLOAT_SUMS else None


def meant_by(rewriter: Rewriter, call: relax.Call) -> Any | None:
    """``multiply(astype(subtract(astype(q, int32), zero), float32), size)`` --> ``dequantize``.

    ``None`` for another product.
    """
    product = with_number(rewriter, call, "multiply")
    if not product or product[1] <= 0:
        return None
    centred, zero = rewriter.resolve(product[0]), 0.0
    if op_name(centred) == "astype" and str(centred.args[0].ty.dtype) == "int32":
        shifted = with_number(rewriter, centred.args[0], "subtract")
        wide, zero = shifted or (centred.args[0], 0.0)
        centred = rewriter.resolve(wide)
    if op_name(centred) != "astype" or str(centred.args[0].ty.dtype) not in BYTES:
        return None
    values = centred.args[0]
    dtype = str(values.ty.dtype)
    if not np.iinfo(dtype).min <= zero <= np.iinfo(dtype).max:
        return None
    return dequantize(values, Scale(dtype, product[1], int(zero)))


def _moved(rewriter: Rewriter, call: relax.Call) -> Any | None:
    """Move bytes instead of what they mean, quantize nothing twice, and divide by nothing."""
    name = op_name(call)
    if name == "quantize":
        return _requantized(rewriter, call)
    if name == "concat":
        return _joined(rewriter, call)
    return _bytes_moved(rewriter, call) if name in MOVES else None


MOVES = (
    *("reshape", "permute_dims", "strided_slice", "repeat", "flip", "broadcast_to"),
    *("nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d", "max", "min"),
)
"""Operators that hand on some of their elements: the same with bytes, whose order is the same."""


def _bytes_moved(rewriter: Rewriter, call: relax.Call) -> Any | None:
    """Move bytes, also where casts stand between these and ``call``: they are done behind it."""
    values = call.args[0]
    if is_cast(cast := rewriter.resolve(values)):
        moved = _bytes_moved(rewriter, _on(call, cast.args[0]))
        return None if moved is None else _cast(rewriter, moved, values)
    meaning = meaning_of(rewriter, values)
    if meaning is None:
        return None
    return dequantize(rewriter.emit(_on(call, meaning.bytes)), meaning.scale)


def _cast(rewriter: Rewriter, expr: Any, like: Any) -> relax.Call:
    return relax.op.astype(rewriter.emit(expr), str(like.ty.dtype))


def _on(call: relax.Call, values: Any) -> relax.Call:
    """Return ``call`` with another first operand."""
    return relax.Call(call.op, [values, *call.args[1:]], call.attrs, call.ty_args)


def _joined(rewriter: Rewriter, call: relax.Call) -> Any | None:
    """Join bytes where all pieces mean the same."""
    pieces = rewriter.resolve(call.args[0])
    if not isinstance(pieces, relax.Tuple):
        return None
    return _bytes_joined(rewriter, call, list(pieces.fields))


def _bytes_joined(rewriter: Rewriter, call: relax.Call, pieces: list[Any]) -> Any | None:
    """Join what ``pieces`` mean as ``call`` does; where all are cast, the result is."""
    casts = [rewriter.resolve(piece) for piece in pieces]
    if all(map(is_cast, casts)):
        joined = _bytes_joined(rewriter, call, [cast.args[0] for cast in casts])
        return None if joined is None else _cast(rewriter, joined, call)
    meanings = [meaning_of(rewriter, piece) for piece in pieces]
    found = [m for m in meanings if m is not None]
    if len(found) < len(meanings) or len({m.scale for m in found}) != 1:
        return None
    joined = relax.op.concat([m.bytes for m in found], call.attrs.axis)
    return dequantize(rewriter.emit(joined), found[0].scale)


def _requantized(rewriter: Rewriter, call: relax.Call) -> Any | None:
    """Return the bytes themselves where they are quantized as before, else a cheaper division."""
    scale, steps = scale_of(rewriter, call), rewriter.resolve(call.args[0])
    if scale is None:
        return None
    meaning = meaning_of(rewriter, steps.args[0])
    if meaning is not None and _same(meaning, scale):
        return meaning.bytes
    if op_name(steps) != "divide" or isinstance(rewriter.resolve(steps.args[0]), relax.Var):
        return None  # nothing binds a model's input
    factor = relax.const(inverse(scale.scale), FLOAT_SUMS)
    counted = rewriter.emit(relax.op.multiply(steps.args[0], factor))
    return quantize(counted, scale.zero_point, scale.dtype)


def _same(meaning: Meaning, scale: Scale) -> bool:
    """Whether bytes mean the same; sizes may differ by the rounding of an inverse."""
    found = meaning.scale
    if (found.dtype, found.zero_point) != (scale.dtype, scale.zero_point):
        return False
    return bool(abs(found.scale / scale.scale - 1) < 2 * np.finfo(FLOAT_SUMS).eps)


class _Early:
    """The rule that quantizes before data moves, where nothing else reads the floats between.

    ``quantize(multiply(max_pool2d(x), c))`` --> ``max_pool2d(quantize(multiply(x, c)))``: the layer
    behind ``x`` stores bytes. Rounding keeps the order of numbers, so the largest stays so.
    """

    def __init__(self, func: relax.Function) -> None:
        self.uses, self.bound = count_uses(func), relax.analysis.get_var2val(func)

    def __call__(self, rewriter: Rewriter, call: relax.Call) -> Any | None:
        scale = scale_of(rewriter, call) if op_name(call) == "quantize" else None
        if scale is None:
            return None
        var, moves = rewriter.original.args[0], []
        steps, step = rewriter.resolve(call.args[0]), self.bound[var]
        while self.uses[var] == 1:
            var = step.args[0]
            if not isinstance(var, relax.Var):
                return None
            step = self.bound.get(var)
            if op_name(step) not in MOVES:
                break
            moves.append(step)
        if not moves or step is None or self.uses[var] != 1:
            return None
        source = rewriter.visit_expr(moves[-1].args[0])
        y = rewriter.emit(relax.Call(steps.op, [source, steps.args[1]], steps.attrs))
        y = rewriter.emit(quantize(y, scale.zero_point, scale.dtype))
        for move in reversed(moves):
            y = rewriter.emit(_on(move, y))
        return y


@tvm.transform.module_pass(opt_level=0, name="FuseQuantization")
@dataclass(frozen=True)
class FuseQuantization:
    """Find quantization wherever it came from, and let operators that only move data move bytes.

    before: ``astype(minimum(maximum(round(divide(x, s)), 0), 255), uint8)``, and
    ``max_pool2d(multiply(astype(q, float32), s))``
    after: ``quantize(multiply(x, 1 / s))`` and ``dequantize(max_pool2d(q))``

    ``quantize`` takes steps, so its own scale is one. Behind anything but an input of the model
    they are counted by a product instead of a quotient, which may take a tie to the other byte.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with ``quantize`` and ``dequantize``."""
        mod = rewrite(mod, _recognised)
        return rewrite(rewrite(mod, _Early(mod["main"])), _moved)
