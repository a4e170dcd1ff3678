"""Attention as models have it: a softmax of products of activations, times a third one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from tvm_sparse.base.memory import array_of
from tvm_sparse.base.numerics import HALVES
from tvm_sparse.passes.graph.rewrite import Rewriter, op_name, same_shape, shape_of
from tvm_sparse.passes.graph.score_masks import Mask, masks, number_of

MOST_MASKS = 2
"""Masks of an attention, at most: a bias of positions, and what is hidden."""


@dataclass(frozen=True)
class Chain:
    """``softmax(query @ key * scale + mask) @ value``, all of one 16-bit dtype; sums are fp32.

    Masks are added, or choose where a number stands in the place of the scores. ``key`` has its
    columns first, as a product wants it. With ``safe``, rows whose scores are all minus infinity
    are zero. ``inner`` are the results between the two products.
    """

    query: Any
    key: Any
    value: Any
    masks: tuple[Mask, ...]
    scale: float
    safe: bool
    inner: tuple[Any, ...]


def attention_chain(rewriter: Rewriter, call: relax.Call) -> Chain | None:
    """Return the attention whose result is ``call``: the sums of its last product, rounded."""
    dtype = str(call.ty.dtype)
    product = _behind_cast(rewriter, call)
    if dtype not in HALVES or not _is_product(product, dtype):
        return None
    shares, inner = product.args[0], [product.args[0]]
    chosen, safe = rewriter.resolve(shares), False
    if op_name(chosen) == "where":
        empty, zero, shares = chosen.args
        if not _is_zero(rewriter, zero):
            return None
        inner.append(shares)
        safe = True
    softmax = _softmax(rewriter, shares, dtype)
    if softmax is None:
        return None
    scores = _without_cast(rewriter, softmax.args[0])
    if safe and not _asks_for_empty_rows(rewriter, empty, scores):
        return None
    found = _masked(rewriter, scores, dtype, inner)
    if found is None:
        return None
    scores, scale = scaled(rewriter, found[0], inner)
    inner.append(scores)
    first = _product_of(rewriter, scores, dtype)
    assert first is not None
    query, key = first.args
    return Chain(query, key, product.args[1], found[1], scale, safe, tuple(inner))


def _masked(
    rewriter: Rewriter, scores: Any, dtype: str, inner: list[Any], most: int = MOST_MASKS
) -> tuple[Any, tuple[Mask, ...]] | None:
    """Return scores without their masks, and these: what has not their extents, or is second."""
    if _product_of(rewriter, scaled(rewriter, scores, [])[0], dtype) is not None:
        return scores, ()
    for own, mask in masks(rewriter, scores) if most else ():
        whole = same_shape(shape_of(own), shape_of(scores))
        if whole and (mask.number or str(mask.tensor.ty.dtype) == dtype):
            between: list[Any] = [scores]
            found = _masked(rewriter, own, dtype, between, most - 1)
            if found is not None:
                inner += between
                return found[0], (*found[1], mask)
    return None


def scaled(rewriter: Rewriter, scores: Any, inner: list[Any]) -> tuple[Any, float]:
    """Return scores without the number that they are multiplied with or divided by, and that."""
    call = rewriter.resolve(scores)
    if op_name(call) not in ("multiply", "divide"):
        return scores, 1.0
    value = number_of(rewriter, call.args[1])
    if not value or not math.isfinite(value):
        return scores, 1.0
    inner.append(scores)
    return call.args[0], value if op_name(call) == "multiply" else 1 / value


def _is_product(call: Any, dtype: str) -> bool:
    return op_name(call) == "matmul" and all(str(x.ty.dtype) == dtype for x in call.args)


def _product_of(rewriter: Rewriter, expr: Any, dtype: str) -> Any | None:
    """Return the product that ``expr``, of ``dtype``, is the rounded result of."""
    if str(expr.ty.dtype) != dtype:
        return None
    call = _behind_cast(rewriter, expr)
    return call if _is_product(call, dtype) else None


def _softmax(rewriter: Rewriter, shares: Any, dtype: str) -> Any | None:
    """Return the softmax of rows that ``shares``, of ``dtype``, are."""
    if str(shares.ty.dtype) != dtype:
        return None
    call = _behind_cast(rewriter, shares)
    last = len(shape_of(shares) or ()) - 1
    return call if op_name(call) == "nn.softmax" and int(call.attrs.axis) in (-1, last) else None


def _behind_cast(rewriter: Rewriter, expr: Any) -> Any:
    """Return the call that ``expr`` is, rounded or widened or not."""
    call = rewriter.resolve(expr)
    return rewriter.resolve(call.args[0]) if op_name(call) == "astype" else call


def _without_cast(rewriter: Rewriter, expr: Any) -> Any:
    """Return what a softmax reads, before it was widened."""
    call = rewriter.resolve(expr)
    wide = op_name(call) == "astype" and str(call.args[0].ty.dtype) in HALVES
    return call.args[0] if wide else expr


def _is_zero(rewriter: Rewriter, expr: Any) -> bool:
    call = rewriter.resolve(expr)
    if op_name(call) == "full_like":
        return _is_scalar(rewriter, call.args[1], 0)
    return _is_scalar(rewriter, expr, 0)


def _is_scalar(rewriter: Rewriter, expr: Any, value: float) -> bool:
    found = rewriter.constant(expr)
    return found is not None and bool((np.asarray(array_of(found), "float64") == value).all())


def _asks_for_empty_rows(rewriter: Rewriter, expr: Any, scores: Any) -> bool:
    """Whether ``expr`` says of each row whether all its ``scores`` are minus infinity.

    PyTorch's ``_safe_softmax`` asks whether any is not; the largest bit or the sum of bits says so.
    """
    found, none = _truth(rewriter, expr)
    if op_name(found) not in ("max", "sum") or not none or not found.attrs.keepdims:
        return False
    rank = len(shape_of(found.args[0]) or ())
    along = [int(axis) % rank for axis in found.attrs.axis or ()]
    lowest, other = _truth(rewriter, found.args[0])
    return (
        along == [rank - 1]
        and other
        and op_name(lowest) == "equal"
        and _is_scalar(rewriter, lowest.args[1], -np.inf)
        and lowest.args[0].same_as(scores)
    )


def _truth(rewriter: Rewriter, expr: Any) -> tuple[Any, bool]:
    """Return what is not zero where ``expr`` is not, or where it is: then the second is true."""
    opposite = False
    while True:
        call = rewriter.resolve(expr)
        name = op_name(call)
        compared = name in ("equal", "not_equal", "greater")
        kept = _is_scalar(rewriter, call.args[1], 0) if compared else name == "astype"
        if not kept and (name != "bitwise_not" or str(call.ty.dtype) != "bool"):
            return call, opposite
        opposite ^= name in ("equal", "bitwise_not")
        expr = call.args[0]
