"""Products of two quantized activations multiply their bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax, topi
from tvm.target import Target

from tvm_sparse.base.numerics import FLOAT_SUMS, INTEGER_SUMS
from tvm_sparse.machine.engine.registry import supported
from tvm_sparse.ops.bytes.quantize import Scale
from tvm_sparse.ops.contractions.byte_products import ByteProduct, Centre, shifts
from tvm_sparse.ops.contractions.pack_bytes import packed
from tvm_sparse.passes.bytes.dynamic_meaning import centred_bytes
from tvm_sparse.passes.bytes.quantization import Meaning, behind_casts, cast, meaning_of
from tvm_sparse.passes.graph.rewrite import (
    Rewriter,
    call_function,
    op_name,
    same_shape,
    shape_of,
    static_shape,
)
from tvm_sparse.passes.graph.views import seen

MOST_COLUMNS = 1 << 14
"""Columns up to which sums of any bytes stay in 32 bits."""


def byte_product(rewriter: Rewriter, call: relax.Call, target: Target) -> Any | None:
    """Return ``call``, a product of two activations, in integers if both are what bytes mean.

    before: ``matmul(dequantize(a), dequantize(b))``
    after: ``meant(call_tir(matmul_uint8, (a, call_tir(pack_bytes, (b,)))), sums of rows, ...)``

    Where the model itself multiplies bytes less what means zero, the result is their sums.
    """
    operands = byte_operands(rewriter, call)
    if operands is None:
        return None
    left, right = operands
    product = _product(left, right)
    view = seen(rewriter, right.bytes)
    if product is None or view is None or not supported(product.contraction.numerics, target):
        return None
    weight = rewriter.builder_.emit_te(
        lambda t: packed(t, view[0], product, target), view[1], primfunc_name_hint="pack_bytes"
    )
    sums = rewriter.emit(
        call_function(
            rewriter,
            product.function(target),
            [left.bytes, weight],
            relax.TensorType(call.ty.shape, INTEGER_SUMS),
            f"matmul_{product.dtype}",
        )
    )
    return meant_sums(rewriter, call, operands, sums, **shifts(left.scale, right.scale))


def centre_of(operands: tuple[Meaning, Meaning], **by: int) -> Centre:
    """Return what makes meanings of the sums of ``operands``, whose bytes were shifted ``by``."""
    left, right = operands
    return Centre.of(left.scale, right.scale, (shape_of(left.bytes) or [])[-1], **by)


def meant_sums(
    rewriter: Rewriter, call: relax.Call, operands: tuple[Meaning, Meaning], sums: Any, **by: int
) -> Any:
    """Return the product ``call`` of what ``operands`` mean, given the ``sums`` of their products.

    Bytes were shifted ``by`` what :class:`Centre` says.
    """
    left, right = operands
    centre = centre_of(operands, **by)
    totals = [_total(rewriter, left.bytes, -1)] if centre.of_rows else []
    totals += [_total(rewriter, right.bytes, -2)] if centre.of_columns else []
    single = np.dtype(FLOAT_SUMS).type
    whole = str(call.ty.dtype) == INTEGER_SUMS
    factor = None if whole else float(single(left.scale.scale) * single(right.scale.scale))
    meant = rewriter.builder_.call_te(
        lambda s, *t: centre.meant(s, factor, *t), sums, *totals, primfunc_name_hint="meant"
    )
    return meant if whole else cast(rewriter, meant, str(call.ty.dtype))


def summable(left: Meaning, right: Meaning) -> bool:
    """Whether sums of products stay in 32 bits, and each row meets the columns of one matrix."""
    shape, other = shape_of(left.bytes) or [], shape_of(right.bytes) or []
    if min(len(shape), len(other)) < 2 or not same_shape(shape[:-2], other[:-2]):
        return False
    return isinstance(shape[-1], int) and 0 < shape[-1] <= MOST_COLUMNS


def beside_in_columns(rewriter: Rewriter, right: Any) -> bool:
    """Whether neighbours in memory are those of a column of a right operand."""
    view = seen(rewriter, right, symbols=True, quotients=False)
    return view is not None and not view[0].contiguous()


def turned(rewriter: Rewriter, right: Any) -> Any:
    """Return a right operand, copied so that neighbours of a column are neighbours in memory."""
    order = list(range(len(shape_of(right) or ())))
    order[-2:] = order[:-3:-1]
    columns = rewriter.builder_.emit_te(
        lambda t: topi.transpose(t, order), right, primfunc_name_hint="turn_bytes"
    )
    return rewriter.emit(relax.op.permute_dims(columns, order))


def byte_operands(rewriter: Rewriter, call: relax.Call) -> tuple[Meaning, Meaning] | None:
    """Return the bytes that both operands of ``call`` mean; ``None`` if one of them means none.

    Where the result is whole, a step of bytes means one.
    """
    of = _steps_of if str(call.ty.dtype) == INTEGER_SUMS else _meaning_of
    left, right = (of(rewriter, operand) for operand in call.args)
    return None if left is None or right is None else (left, right)


def _meaning_of(rewriter: Rewriter, expr: Any) -> Meaning | None:
    """Return the bytes whose meaning ``expr`` is, cast to halves or not."""
    return meaning_of(rewriter, behind_casts(rewriter, expr)[0])


def _steps_of(rewriter: Rewriter, expr: Any) -> Meaning | None:
    """Return the bytes that ``expr`` is, less a number: a step means one."""
    found = centred_bytes(rewriter, expr)
    if found is None or not isinstance(found[1], int):
        return None
    return Meaning(found[0], Scale(str(found[0].ty.dtype), 1.0, found[1]))


def _product(left: Meaning, right: Meaning) -> ByteProduct | None:
    """Return what is multiplied, ``None`` if extents are unknown or leading ones differ."""
    shape, other = (static_shape(meaning.bytes) for meaning in (left, right))
    if shape is None or other is None or len(shape) < 2 or shape[:-2] != other[:-2]:
        return None
    (*batch, rows, columns), features = shape, other[-1]
    if not 0 < columns <= MOST_COLUMNS or 0 in (*batch, rows, features):
        return None
    return ByteProduct(tuple(batch), rows, columns, features, left.scale.dtype)


def _total(rewriter: Rewriter, values: Any, axis: int) -> Any:
    """Emit the sums of bytes along ``axis``, of what was transposed before that."""
    source, shape = rewriter.resolve(values), static_shape(values)
    if op_name(source) == "permute_dims" and source.attrs.axes is not None and shape is not None:
        order = [int(a) % len(shape) for a in source.attrs.axes]
        summed = order.pop(axis)
        kept = [sorted(order).index(a) for a in order]
        return rewriter.emit(relax.op.permute_dims(_total(rewriter, source.args[0], summed), kept))
    return rewriter.emit(relax.op.sum(rewriter.emit(relax.op.astype(values, INTEGER_SUMS)), axis))
