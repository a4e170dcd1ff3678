"""Depthwise convolution for GPUs: a thread owns a strip of pixels and 16 bytes of channels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.machine.engine.registry import require_gpu
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda.multiply import fp32
from tvm_sparse.ops.cuda.tile import round_up
from tvm_sparse.ops.marks import FUSION, OPERATOR, OUT_FUSABLE, TILE, int64


@dataclass(frozen=True)
class Strip:
    """Output pixels of one thread."""

    height: int
    width: int


def depthwise(c: Contraction, strip: Strip) -> tirx.PrimFunc:
    """Return ``f(X, taps, Y)``: ``Y[b, y, x, c] = sum_t X[b, y*s+ty, x*s+tx, c] * W[t, c]``.

    ``taps`` is ``(kh * kw, channels)``, as ``DenseTapFormat.encode`` gives it. Sums are fp32. The
    plane is filled up to whole strips in registers only.
    """
    batch, height, width = c.lead
    plane = (round_up(height, strip.height), round_up(width, strip.width))
    require_gpu(c.numerics)
    with IRBuilder() as builder, T.prim_func(is_private=True, s_tir=True):
        T.func_name("main")
        T.func_attr({FUSION: OUT_FUSABLE, "tirx.noalias": True})
        x = T.arg("X", T.Buffer(int64(c.input_shape), c.dtype))
        taps = T.arg("V", T.Buffer(int64((math.prod(c.taps), c.features)), c.dtype))
        y = T.arg("Y", T.Buffer(int64(c.output_shape), c.out_dtype))
        with T.sblock("root"):
            xs = T.sblock_alloc_buffer(int64((batch, *window(c, plane), c.columns)), c.dtype)
            acc = T.sblock_alloc_buffer(int64((batch, *plane, c.features)), FLOAT_SUMS)
            stage_window(c, x, xs)
            _contract(c, strip, (xs, taps, acc))
            store_rounded(acc, y)
    return builder.get()


def store_rounded(acc: tirx.Buffer, y: tirx.Buffer, name: str = "store") -> None:
    """Emit the block that rounds sums to the output; ``acc`` may be larger than ``y``."""
    with T.grid(*y.shape) as axes, T.sblock(name):
        index = list(T.axis.remap("S" * len(y.shape), axes))
        value = acc[tuple(index)]
        T.reads(value)
        T.writes(y[tuple(index)])
        if str(y.dtype) != FLOAT_SUMS:
            value = tirx.Cast(str(y.dtype), value)
        T.buffer_store(y, value, index)


def window(c: Contraction, plane: tuple[int, int]) -> tuple[int, ...]:
    """Return the rows and columns of input, borders included, that ``plane`` outputs read."""
    axes = zip(plane, c.strides, c.taps, c.dilation, strict=True)
    return tuple((n - 1) * s + (k - 1) * d + 1 for n, s, k, d in axes)


def stage_window(c: Contraction, x: tirx.Buffer, xs: tirx.Buffer, name: str = "stage_x") -> None:
    """Emit the block that reads the input with its borders; outside it is zero.

    ``xs`` may have more images than the input; they are zero too.
    """
    with T.grid(*xs.shape) as axes, T.sblock(name):
        b, row, column, channel = T.axis.remap("SSSS", axes)
        place, conditions = inside(c, row, column)
        if isinstance(c.lead[0], int) and int(xs.shape[0]) > c.lead[0]:
            conditions.append(b < c.lead[0])
        value = x[(b, *place, channel)]
        T.reads(value)
        T.writes(xs[b, row, column, channel])
        value = tirx.if_then_else(tirx.all(*conditions), value, tirx.const(0, c.dtype))
        T.buffer_store(xs, value, [b, row, column, channel])


def inside(c: Contraction, row: Any, column: Any) -> tuple[list[Any], list[Any]]:
    """Return where a pixel of the input with borders lies, and when that is in the input."""
    borders = c.borders or (0, 0)
    place = [p - before for p, before in zip((row, column), borders, strict=True)]
    conditions = [
        condition
        for p, extent in zip(place, c.padded, strict=True)
        for condition in (p >= 0, p < extent)
    ]
    return place, conditions


def _contract(c: Contraction, strip: Strip, buffers: tuple[Any, Any, Any]) -> None:
    """Emit the block that accumulates one tap."""
    xs, taps, acc = buffers
    with T.grid(*acc.shape, *int64(c.taps)) as axes, T.sblock("contract"):
        b, row, column, channel, down, right = T.axis.remap("SSSSRR", axes)
        at = (b, row, column, channel)
        steps = zip((row, column), (down, right), c.strides, c.dilation, strict=True)
        pixel = xs[(b, *(p * s + k * d for p, k, s, d in steps), channel)]
        weight = taps[down * c.taps[1] + right, channel]
        T.reads(pixel, weight)
        T.writes(acc[at])
        T.sblock_attr({OPERATOR: "depthwise_strip", TILE: [strip.height, strip.width]})
        with T.init():
            T.buffer_store(acc, tirx.const(0, FLOAT_SUMS), list(at))
        T.buffer_store(acc, acc[at] + fp32(pixel) * fp32(weight), list(at))
