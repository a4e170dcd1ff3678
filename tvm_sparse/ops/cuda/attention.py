"""Attention in one kernel on GPUs: no score is ever stored."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.ops.contractions.batch_matmul import View
from tvm_sparse.ops.cuda.attention_source import WARP_ROWS, attention_source
from tvm_sparse.ops.cuda.product import element, neighbours
from tvm_sparse.ops.cuda.tile import VECTOR_BITS, unflat
from tvm_sparse.ops.marks import FUSION, OPAQUE, int64

WIDEST = 128
"""Elements of a head, at most: more sums than a thread has registers for."""

LANES = 32

MOST_ROWS = 65535 * WARP_ROWS
"""Queries of an item, at most: a grid has no more blocks along its second axis."""

MOST_SCORES = 2**31 - 1
"""Scores of an item, at most: 32 bits count them."""


@dataclass(frozen=True)
class Attention:
    """``softmax(Q K^T * scale + mask) V`` for each item of ``lead``; see :func:`attention`.

    Parameters
    ----------
    query, key, value
        Views of ``lead`` items of ``(rows, width)``, ``(keys, width)`` and ``(keys, width)``.
        Their leading axes broadcast to ``lead`` as NumPy's do. Static extents.
    lead
        The items: axes of a batch and of its heads.
    order
        The axes of the result ``(*lead, rows, width)`` in memory, the last of which stays.
    mask
        Shape of what is added to the scores, in their dtype: it broadcasts to
        ``(*lead, rows, keys)``.
    scale
        What scores are multiplied with.
    safe
        Whether a row whose scores are all minus infinity is zero; else it is NaN.
    """

    query: View
    key: View
    value: View
    lead: tuple[int, ...]
    order: tuple[int, ...]
    mask: tuple[int, ...] | None = None
    scale: float = 1.0
    safe: bool = False

    @property
    def rows(self) -> int:
        """Queries of an item."""
        return int(self.query.shapes[-1][-2])

    @property
    def keys(self) -> int:
        """Keys of an item."""
        return int(self.key.shapes[-1][-2])

    @property
    def width(self) -> int:
        """Elements of a head."""
        return int(self.query.shapes[-1][-1])

    @property
    def output(self) -> tuple[int, ...]:
        """Shape of the result in memory."""
        shape = (*self.lead, self.rows, self.width)
        return tuple(shape[axis] for axis in self.order)

    def fits(self, dtype: str) -> bool:
        """Whether there is a kernel: vectors are side by side and aligned, rows evenly apart."""
        empty = 0 in (self.rows, self.keys, *self.lead)
        alike = self.value.shapes[-1][-2:] == (self.keys, self.width)
        if self.width % WARP_ROWS or self.width > WIDEST or empty or not alike:
            return False
        if self.order[-1] != len(self.lead) + 1:
            return False
        if self.rows > MOST_ROWS or self.rows * self.keys > MOST_SCORES:
            return False
        whole = VECTOR_BITS // 16
        views = (self.query, self.key, self.value)
        return all(neighbours(v, -1, dtype) == whole and _apart(v) is not None for v in views)


def attention(a: Attention, dtype: str, warps: int) -> tirx.PrimFunc:
    """Return ``f(Q, K, V[, mask], Y)``: ``Y = softmax(Q K^T * scale + mask) V`` of 16-bit values.

    Scores and sums are fp32; the shares of the values are rounded to ``dtype`` before they are
    multiplied, and the result once. Thread blocks of ``warps`` warps have 16 queries a warp.
    """
    masked = a.mask is not None
    name, source = attention_source(dtype, a.width, warps=warps, masked=masked, safe=a.safe)
    blocks, items = -(-a.rows // (WARP_ROWS * warps)), math.prod(a.lead)
    views = (a.query, a.key, a.value)
    with IRBuilder() as builder, T.prim_func(is_private=True, s_tir=True):
        T.func_name("main")
        T.func_attr({FUSION: OPAQUE, "tirx.noalias": True})
        shapes = {name: view.shape for name, view in zip("QKV", views, strict=True)}
        inputs = [T.arg(name, T.Buffer(int64(shape), dtype)) for name, shape in shapes.items()]
        mask = T.arg("M", T.Buffer(int64(a.mask), dtype)) if a.mask is not None else None
        y = T.arg("Y", T.Buffer(int64(a.output), dtype))
        with T.sblock("attention"):
            T.reads(*map(_all, inputs if mask is None else [*inputs, mask]))
            T.writes(_all(y))
            with (
                _bound("blockIdx.x", items) as item,
                _bound("blockIdx.y", blocks) as block,
                _bound("threadIdx.x", LANES * warps),
            ):
                place = (*unflat(item, a.lead), 0, 0)

                def first(buffer: Any, view: View) -> Any:
                    return T.address_of(buffer[element(view, place, ((item, items),))])

                seen = [first(x, view) for x, view in zip(inputs, views, strict=True)]
                operands = [
                    T.address_of(y[tuple(place[axis] for axis in a.order)]),
                    *seen,
                    seen[0] if a.mask is None else first(mask, View(a.mask)),
                    tirx.const(a.scale, FLOAT_SUMS),
                    tirx.Cast("int32", block),
                ]
                numbers = (a.rows, a.keys, _row_step(a), *map(_apart, views), *_mask_steps(a))
                operands += [tirx.const(number, "int32") for number in numbers]
                T.evaluate(T.cuda.func_call(name, *operands, source_code=source))
    return builder.get()


def _bound(axis: str, extent: int) -> Any:
    return T.thread_binding(0, tirx.const(extent, "int64"), thread=axis)


def _mask_steps(a: Attention) -> tuple[int, int]:
    """Return how many elements of the mask rows and keys are apart: none where it has one."""
    shape = (1, 1, *(a.mask or ()))
    rows = shape[-1] if shape[-2] > 1 else 0
    return rows, int(shape[-1] > 1)


def _all(buffer: Any) -> Any:
    return buffer[tuple(slice(0, int(extent)) for extent in buffer.shape)]


def _apart(view: View) -> int | None:
    """Return how many elements two rows of a view are apart; None if that differs."""
    steps = np.diff(view.places()[..., 0], axis=-1)
    first = int(steps.flat[0]) if steps.size else 0
    return first if (steps == first).all() else None


def _row_step(a: Attention) -> int:
    """Return how many elements two rows of an item's result are apart."""
    axis = a.order.index(len(a.lead))
    return math.prod(a.output[axis + 1 :])
