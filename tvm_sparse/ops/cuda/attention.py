"""Attention in one kernel on GPUs: no score is ever stored."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
from tvm_sparse.ops.marks import int64

WIDEST = 128
"""Elements of a head, at most: more sums than a thread has registers for."""

OPAQUE = 8
"""TVM's number for functions that nothing is fused with."""

LANES = 32


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
        Shape of what is added to the scores, which broadcasts to ``(*lead, rows, keys)``.
    mask_dtype
        Its dtype, if there is a mask.
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
    mask_dtype: str | None = None
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
        whole = VECTOR_BITS // 16
        views = (self.query, self.key, self.value)
        return all(neighbours(view, -1, dtype) == whole and _even(view) for view in views)


def attention(a: Attention, dtype: str, warps: int) -> tirx.PrimFunc:
    """Return ``f(Q, K, V[, mask], Y)``: ``Y = softmax(Q K^T * scale + mask) V`` of 16-bit values.

    Scores and sums are fp32; the shares of the values are rounded to ``dtype`` before they are
    multiplied, and the result once. Thread blocks of ``warps`` warps have 16 queries a warp.
    """
    masked = a.mask_dtype if a.mask is not None else None
    name, source = attention_source(dtype, a.width, warps=warps, mask=masked, safe=a.safe)
    blocks, items = -(-a.rows // (WARP_ROWS * warps)), math.prod(a.lead)
    views = (a.query, a.key, a.value)
    with IRBuilder() as builder, T.prim_func(is_private=True, s_tir=True):
        T.func_name("main")
        T.func_attr({"op_pattern": OPAQUE, "tirx.noalias": True})
        shapes = {name: view.shape for name, view in zip("QKV", views, strict=True)}
        inputs = [T.arg(name, T.Buffer(int64(shape), dtype)) for name, shape in shapes.items()]
        mask = T.arg("M", T.Buffer(int64(a.mask), a.mask_dtype)) if a.mask is not None else None
        y = T.arg("Y", T.Buffer(int64(a.output), dtype))
        with T.sblock("attention"):
            T.reads(*map(_all, inputs if mask is None else [*inputs, mask]))
            T.writes(_all(y))
            with (
                _bound("blockIdx.x", items) as item,
                _bound("blockIdx.y", blocks) as block,
                _bound("threadIdx.x", LANES * warps),
            ):
                index = unflat(item, a.lead)
                first = [
                    T.address_of(x[element(view, (*index, 0, 0), ((item, items),))])
                    for x, view in zip(inputs, views, strict=True)
                ]
                added, apart = _mask(a, mask, index)
                place = (*index, 0, 0)
                operands = [
                    T.address_of(y[tuple(place[axis] for axis in a.order)]),
                    *first,
                    first[0] if added is None else added,
                    tirx.const(a.scale, FLOAT_SUMS),
                    tirx.Cast("int32", block),
                ]
                numbers = (a.rows, a.keys, _row_step(a), *map(_step, views), *apart)
                operands += [tirx.const(number, "int32") for number in numbers]
                T.evaluate(T.cuda.func_call(name, *operands, source_code=source))
    return builder.get()


def _bound(axis: str, extent: int) -> Any:
    return T.thread_binding(0, tirx.const(extent, "int64"), thread=axis)


def _mask(a: Attention, mask: Any, index: Sequence[Any]) -> tuple[Any, tuple[int, int]]:
    """Return the address of an item's first mask, and how far rows and keys are apart."""
    if mask is None or a.mask is None:
        return None, (0, 0)
    strides = [math.prod(a.mask[axis + 1 :]) for axis in range(len(a.mask))]
    steps = [0 if extent == 1 else s for extent, s in zip(a.mask, strides, strict=True)]
    padded = (0, 0, *steps)[-2:]
    own = list(index)[len(index) + 2 - len(a.mask) :] if len(a.mask) > 2 else []
    first = [0 if extent == 1 else i for i, extent in zip(own, a.mask, strict=False)]
    place = (*first, *[0] * (len(a.mask) - len(first)))
    return T.address_of(mask[place]), (padded[0], padded[1])


def _all(buffer: Any) -> Any:
    return buffer[tuple(slice(0, int(extent)) for extent in buffer.shape)]


def _step(view: View) -> int:
    """Return how many elements two rows of a view are apart."""
    places = view.places()
    return int(places[..., 1, 0].flat[0] - places[..., 0, 0].flat[0]) if places.shape[-2] > 1 else 0


def _row_step(a: Attention) -> int:
    """Return how many elements two rows of an item's result are apart."""
    axis = a.order.index(len(a.lead))
    return math.prod(a.output[axis + 1 :])


def _even(view: View) -> bool:
    """Whether all rows of all items are equally far apart."""
    places = view.places()[..., 0]
    return places.shape[-1] < 3 or len(np.unique(np.diff(places, axis=-1))) == 1
