"""Both halves of a depthwise + pointwise kernel for GPUs: sums over taps, then a 1x1 convolution.

Each half is a function of its own; merged into one (with whatever is computed between them), the
first half computes what the second one stages, and the tensor between them is never stored.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.formats.dense import DenseFormat
from tvm_sparse.machine.engine.registry import require_gpu
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda.dense_weights import DenseOperand
from tvm_sparse.ops.cuda.depthwise import stage_window, store_rounded, window
from tvm_sparse.ops.cuda.multiply import Multiplier, fp32
from tvm_sparse.ops.cuda.tile import COPIES, ThreadBlockTile, round_up, staged, unflat
from tvm_sparse.ops.marks import FUSION, OPERATOR, OUT_FUSABLE, TILE, int64

WINDOW, SUMS = "stage_window", "sum_taps"
"""Names of the blocks that read the input, and add up taps."""

STRIPS = COPIES[0]
"""Name of the block that stages the result of the first half: the second one's activations."""


@dataclass(frozen=True)
class SeparableTile:
    """What one thread block computes, and how its threads share that.

    A thread computes strips of ``strip`` neighbouring pixels x ``lanes`` channels of the depthwise
    half; the product of ``tile`` is cut into ``down`` x ``across`` pieces (of warps, or of threads
    in fp32).
    """

    tile: ThreadBlockTile
    strip: int
    lanes: int
    down: int
    across: int


def depthwise_strips(c: Contraction, images: int) -> tirx.PrimFunc:
    """Return ``f(X, taps, Y)``: ``Y[b, y, x, c] = sum_t X[b, y*s+ty, x*s+tx, c] * W[t, c]``.

    As :func:`~tvm_sparse.ops.cuda.depthwise.depthwise`, but the sum is one expression: a schedule
    may compute any part of it anywhere. ``Y`` has ``images`` images, at least as many as ``X``;
    those past the end are zero.
    """
    output = (images, *c.output_shape[1:])
    require_gpu(c.numerics)
    with IRBuilder() as builder, T.prim_func(is_private=True, s_tir=True):
        T.func_name("main")
        T.func_attr({FUSION: OUT_FUSABLE, "tirx.noalias": True})
        x = T.arg("X", T.Buffer(int64(c.input_shape), c.dtype))
        taps = T.arg("V", T.Buffer(int64((math.prod(c.taps), c.features)), c.dtype))
        y = T.arg("Y", T.Buffer(int64(output), c.out_dtype))
        with T.sblock("root"):
            plane = (images, *window(c, c.lead[1:]), c.columns)
            xs = T.sblock_alloc_buffer(int64(plane), c.dtype)
            acc = T.sblock_alloc_buffer(int64(output), FLOAT_SUMS)
            stage_window(c, x, xs, WINDOW)
            _sum_taps(c, xs, taps, acc)
            store_rounded(acc, y, "round")
    return builder.get()


def pointwise(
    c: Contraction, format: DenseFormat, shape: SeparableTile, multiplier: Multiplier
) -> tirx.PrimFunc:
    """Return ``f(X, values, Y)``: ``Y[b, y, x, o] = sum_k X[b, y, x, k] * W[o, k]``.

    The sums of :func:`~tvm_sparse.ops.cuda.tile.tiled`, but pixels are staged as strips of
    neighbours in one image row. ``shape.strip`` divides the rows of a tile and the width of the
    image, ``format.lanes`` are the features of a tile. ``X`` has :func:`whole_images`.
    """

    def stage(x: tirx.Buffer, xs: tirx.Buffer) -> None:
        _stage_strips(c, shape, x, xs)

    images = (whole_images(c, shape.tile), *c.input_shape[1:])
    weights = DenseOperand(format, shape.tile)
    return staged(c, images, weights, shape.tile, multiplier, stage=stage)


def whole_images(c: Contraction, tile: ThreadBlockTile) -> int:
    """Return how many images the pixels of all tiles belong to, those past the end included."""
    pixels = int(round_up(math.prod(c.lead), tile.rows))
    return math.ceil(pixels / math.prod(c.lead[1:]))


def _sum_taps(c: Contraction, xs: tirx.Buffer, taps: Any, acc: tirx.Buffer) -> None:
    """Emit the block that adds up all taps of a pixel, in fp32."""
    with T.grid(*acc.shape) as axes, T.sblock(SUMS):
        b, row, column, channel = T.axis.remap("SSSS", axes)
        first = (row * c.strides[0], column * c.strides[1])
        down, right = ((k - 1) * d + 1 for k, d in zip(c.taps, c.dilation, strict=True))
        ends = (slice(first[0], first[0] + down), slice(first[1], first[1] + right))
        T.reads(xs[(b, *ends, channel)], taps[0 : taps.shape[0], channel])
        T.writes(acc[b, row, column, channel])
        T.sblock_attr({OPERATOR: "separable"})
        total: Any = None
        for tap in range(math.prod(c.taps)):
            y, x = divmod(tap, c.taps[1])
            pixel = xs[b, first[0] + y * c.dilation[0], first[1] + x * c.dilation[1], channel]
            product = fp32(pixel) * fp32(taps[tap, channel])
            total = product if total is None else total + product
        T.buffer_store(acc, total, [b, row, column, channel])


def _stage_strips(c: Contraction, shape: SeparableTile, x: tirx.Buffer, xs: tirx.Buffer) -> None:
    """Emit the block that stages pixels; past the last channel it is zero."""
    blocks, rows, columns = xs.shape
    height, width = c.lead[1:]
    strip = shape.strip
    grid = (blocks, rows // strip, *int64((strip,)), columns)
    with T.grid(*grid) as axes, T.sblock(STRIPS):
        block, piece, pixel, k = T.axis.remap("SSSS", axes)
        image, row, place = unflat(piece, (c.lead[0], height, width // strip))
        value = x[image, row, place * strip + pixel, k]
        T.reads(value)
        T.writes(xs[block, piece * strip + pixel, k])
        T.sblock_attr({TILE: [strip, shape.lanes, shape.down, shape.across]})
        if int(columns) != c.columns:
            value = tirx.if_then_else(k < c.columns, value, tirx.const(0, c.dtype))
        T.buffer_store(xs, value, [block, piece * strip + pixel, k])
