"""Attention in one kernel on GPUs: no score is ever stored."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T
from tvm.sym import Analyzer

from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.ops.contractions.batch_matmul import View
from tvm_sparse.ops.cuda.attention_source import WARP_ROWS, attention_source
from tvm_sparse.ops.cuda.product import element, neighbours
from tvm_sparse.ops.cuda.tile import VECTOR_BITS, round_up, unflat
from tvm_sparse.ops.marks import FUSION, OPAQUE, flat, int64

WIDEST = 128
"""Elements of a head, at most: more sums than a thread has registers for."""

LANES = 32

MOST = 2**31 - 1
"""Queries of all items, and keys of one, at most: 32 bits count them."""


@dataclass(frozen=True)
class ScoreMask:
    """What is added to scores, of a ``shape`` that broadcasts to ``(*lead, rows, keys)``.

    ``instead``: it is not added; where it is not zero, it stands in the place of the score.
    """

    shape: tuple[Any, ...]
    instead: bool = False


@dataclass(frozen=True)
class Attention:
    """``softmax(Q K^T * scale + mask) V`` for each item of ``lead``; see :func:`attention`.

    Parameters
    ----------
    query, key, value
        Views of ``lead`` items of ``(rows, width)``, ``(keys, width)`` and ``(keys, width)``.
        Their leading axes broadcast to ``lead`` as NumPy's do. All extents but the width may be
        symbolic: symbols are extents of the views' tensors.
    lead
        The items: axes of a batch and of its heads.
    order
        The axes of the result ``(*lead, rows, width)`` in memory, the last of which stays.
    masks
        What is done to the scores, in this order, in their dtype.
    scale
        What scores are multiplied with.
    safe
        Whether a row whose scores are all minus infinity is zero; else it is NaN.
    """

    query: View
    key: View
    value: View
    lead: tuple[Any, ...]
    order: tuple[int, ...]
    masks: tuple[ScoreMask, ...] = ()
    scale: float = 1.0
    safe: bool = False

    @property
    def rows(self) -> Any:
        """Queries of an item."""
        return self.query.shapes[-1][-2]

    @property
    def keys(self) -> Any:
        """Keys of an item."""
        return self.key.shapes[-1][-2]

    @property
    def width(self) -> Any:
        """Elements of a head."""
        return self.query.shapes[-1][-1]

    @property
    def output(self) -> tuple[Any, ...]:
        """Shape of the result in memory."""
        shape = (*self.lead, self.rows, self.width)
        return tuple(shape[axis] for axis in self.order)

    def fits(self, dtype: str) -> bool:
        """Whether there is a kernel: vectors are side by side and aligned, rows evenly apart."""
        views, known = (self.query, self.key, self.value), isinstance(self.width, int)
        if not known or self.width % WARP_ROWS or self.width > WIDEST:
            return False
        empty = any(isinstance(e, int) and e == 0 for e in (self.rows, self.keys, *self.lead))
        columns = (self.key.shapes[-1][-2:], self.value.shapes[-1][-2:])
        alike = all(_same(own, (self.keys, self.width)) for own in columns)
        if empty or not alike or self.order[-1] != len(self.lead) + 1:
            return False
        fixed = [e for e in (self.rows, *self.lead) if isinstance(e, int)]
        if math.prod(fixed) > MOST or (isinstance(self.keys, int) and self.keys > MOST):
            return False
        scores = (*self.lead, self.rows, self.keys)
        if not all(_broadcasts(mask.shape, scores) for mask in self.masks):
            return False
        whole = VECTOR_BITS // 16
        return all(neighbours(v, -1, dtype) == whole and _apart(v) is not None for v in views)


def attention(a: Attention, dtype: str, warps: int) -> tirx.PrimFunc:
    """Return ``f(Q, K, V, *masks, Y)``: ``Y = softmax(Q K^T * scale + mask) V`` of 16-bit values.

    Scores and sums are fp32; the shares of the values are rounded to ``dtype`` before they are
    multiplied, and the result once. Thread blocks of ``warps`` warps have 16 queries a warp.
    """
    instead = [mask.instead for mask in a.masks]
    name, source = attention_source(dtype, a.width, warps=warps, masks=instead, safe=a.safe)
    blocks, items = round_up(a.rows, WARP_ROWS * warps) // (WARP_ROWS * warps), math.prod(a.lead)
    views = (a.query, a.key, a.value)
    with IRBuilder() as builder, T.prim_func(is_private=True, s_tir=True):
        T.func_name("main")
        T.func_attr({FUSION: OPAQUE, "tirx.noalias": True})
        shapes = {name: view.shape for name, view in zip("QKV", views, strict=True)}
        inputs = [T.arg(name, T.Buffer(int64(shape), dtype)) for name, shape in shapes.items()]
        masks = [
            T.arg(f"M{i}", T.Buffer(int64(mask.shape), dtype)) for i, mask in enumerate(a.masks)
        ]
        y = T.arg("Y", T.Buffer(int64(a.output), dtype))
        with T.sblock("attention"):
            T.reads(*map(_all, [*inputs, *masks]))
            T.writes(_all(y))
            with (
                _bound("blockIdx.x", items * blocks) as part,
                _bound("threadIdx.x", LANES * warps),
            ):
                place = (*unflat(part // blocks, a.lead), 0, 0)

                def first(buffer: Any, view: View) -> Any:
                    return T.address_of(buffer[element(view, place, ((part, items * blocks),))])

                seen = [first(x, view) for x, view in zip(inputs, views, strict=True)]
                operands = [
                    T.address_of(y[tuple(place[axis] for axis in a.order)]),
                    *seen,
                    *(first(x, View(mask.shape)) for x, mask in zip(masks, a.masks, strict=True)),
                    tirx.const(a.scale, FLOAT_SUMS),
                    _int32(part % blocks),
                ]
                numbers = (a.rows, a.keys, _row_step(a), *map(_apart, views), *_mask_steps(a))
                operands += map(_int32, numbers)
                T.evaluate(T.cuda.func_call(name, *operands, source_code=source))
    return builder.get()


def _bound(axis: str, extent: Any) -> Any:
    return T.thread_binding(tirx.const(0, "int64"), *int64((extent,)), thread=axis)


def _int32(number: Any) -> Any:
    return tirx.const(number, "int32") if isinstance(number, int) else tirx.Cast("int32", number)


def _same(extents: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    """Whether extents are equal, whatever symbols stand for."""
    return all(map(Analyzer().can_prove_equal, extents, others))


def _broadcasts(mask: tuple[Any, ...], scores: tuple[Any, ...]) -> bool:
    """Whether each extent of a mask is that of the scores, or known to be one."""
    aligned = zip(mask, scores[len(scores) - len(mask) :], strict=True)
    return all(_is_one(own) or Analyzer().can_prove_equal(own, extent) for own, extent in aligned)


def _is_one(extent: Any) -> bool:
    return isinstance(extent, int) and extent == 1


def _mask_steps(a: Attention) -> Iterator[Any]:
    """Yield how many elements of each mask rows, then keys are apart: none where it has one."""
    for mask in a.masks:
        shape = (1, 1, *mask.shape)
        yield 0 if _is_one(shape[-2]) else shape[-1]
        yield int(not _is_one(shape[-1]))


def _all(buffer: Any) -> Any:
    return buffer[tuple(slice(0, extent) for extent in buffer.shape)]


def _apart(view: View) -> Any | None:
    """Return how many elements two rows of a view are apart; None if that differs."""
    sample = view.sample()
    steps = np.diff(sample.places()[..., 0], axis=-1)
    first = int(steps.flat[0]) if steps.size else 0
    if not (steps == first).all():
        return None
    if sample.shape == view.shape:
        return first
    lead = [0] * (len(view.shapes[-1]) - 2)
    one, other = (flat(view.source([*lead, row, 0]), view.shape) for row in (1, 0))
    return Analyzer().simplify(one - other)


def _row_step(a: Attention) -> Any:
    """Return how many elements two rows of an item's result are apart."""
    axis = a.order.index(len(a.lead))
    return math.prod(a.output[axis + 1 :])
