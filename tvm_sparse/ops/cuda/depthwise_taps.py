"""Depthwise convolution with pruned taps for GPUs: a lane is a channel and reads its own taps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.formats.arrays import index_dtype
from tvm_sparse.formats.depthwise import DepthwiseTapsFormat
from tvm_sparse.machine.engine.registry import require_gpu
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda.depthwise import inside, store_rounded, window
from tvm_sparse.ops.cuda.multiply import fp32
from tvm_sparse.ops.cuda.staging import SHARED
from tvm_sparse.ops.cuda.tile import round_up
from tvm_sparse.ops.marks import FUSION, OPERATOR, OUT_FUSABLE, TILE, VECTOR, int64

LONGEST = 8
"""Output pixels of a tile along one axis, at most."""

VECTOR_ELEMENTS = 4
"""Channels that a thread stages at a time: 16 bytes once they are fp32."""

Buffers = tuple[Any, ...]


@dataclass(frozen=True)
class Plane:
    """Output pixels and channels of one thread block; a thread has one channel of one row."""

    height: int
    width: int
    lanes: int


def choose_plane(c: Contraction, lanes: int) -> Plane:
    """Return the tile that pads the output plane least, the largest of them."""
    sizes = range(1, LONGEST + 1)
    height, width = (
        min(sizes, key=lambda size: (round_up(extent, size), -size)) for extent in c.lead[1:]
    )
    return Plane(height, width, lanes)


def depthwise_taps(c: Contraction, s: DepthwiseTapsFormat, tile: Plane) -> tirx.PrimFunc:
    """Return ``f(X, values, taps, order, Y)``; every channel sums over its own taps, in fp32.

    ``s`` has one bucket of groups of ``tile.lanes`` channels. A tile's window of the input is
    staged as fp32 with channels side by side: 32 lanes never meet in one bank of shared memory,
    whatever taps they read, and a product needs no conversion. (Pruned taps: Park et al., DEPrune,
    NeurIPS 2024.)
    """
    plane = (round_up(c.lead[1], tile.height), round_up(c.lead[2], tile.width))
    channels, slots = s.groups * s.lanes, s.buckets.parts[0].slots
    require_gpu(c.numerics)
    with IRBuilder() as builder, T.prim_func(is_private=True, s_tir=True):
        T.func_name("main")
        T.func_attr({FUSION: OUT_FUSABLE, "tirx.noalias": True})
        x = T.arg("X", T.Buffer(int64(c.input_shape), c.dtype))
        stored = int64((s.groups * slots, s.lanes))
        values = T.arg("V", T.Buffer(stored, c.dtype))
        taps = T.arg("I", T.Buffer(stored, index_dtype(s.taps).name))
        T.arg("order", T.Buffer(int64((s.groups,)), "int32"))
        y = T.arg("Y", T.Buffer(int64(c.output_shape), c.out_dtype))
        with T.sblock("root"):
            tiles = (c.lead[0], plane[0] // tile.height, plane[1] // tile.width, s.groups)
            size = math.prod(window(c, (tile.height, tile.width)))
            staged = int64((*tiles, size, s.lanes))
            xs = T.sblock_alloc_buffer(staged, FLOAT_SUMS, scope=SHARED)
            places = T.sblock_alloc_buffer(int64((channels, slots)), "int32")
            weights = T.sblock_alloc_buffer(int64((channels, slots)), FLOAT_SUMS)
            acc = T.sblock_alloc_buffer(int64((c.lead[0], *plane, channels)), FLOAT_SUMS)
            _stage(c, tile, x, xs)
            _places(c, tile, taps, places)
            _weights(values, weights)
            _contract(c, tile, (xs, places, weights), acc)
            store_rounded(acc, y)
    return builder.get()


def _stage(c: Contraction, tile: Plane, x: tirx.Buffer, xs: tirx.Buffer) -> None:
    """Emit the blocks that read a tile's window, zero outside the input, and make it fp32."""
    _, width = window(c, (tile.height, tile.width))
    read = T.sblock_alloc_buffer(list(xs.shape), c.dtype)
    # Whole vectors of channels are inside or outside: one condition serves a vector load.
    vector = math.gcd(c.columns, tile.lanes, VECTOR_ELEMENTS)
    with T.grid(*xs.shape) as axes, T.sblock("load_x"):
        b, down, right, group, at, lane = T.axis.remap("SSSSSS", axes)
        row = down * (tile.height * c.strides[0]) + at // width
        column = right * (tile.width * c.strides[1]) + at % width
        channel = group * tile.lanes + lane
        place, conditions = inside(c, row, column)
        value = x[(b, *place, channel)]
        T.reads(value)
        T.writes(read[b, down, right, group, at, lane])
        conditions.append(channel // vector < c.columns // vector)
        value = tirx.if_then_else(tirx.all(*conditions), value, tirx.const(0, c.dtype))
        T.buffer_store(read, value, [b, down, right, group, at, lane])
    with T.grid(*xs.shape) as axes, T.sblock("stage_x"):
        index = list(T.axis.remap("SSSSSS", axes))
        T.reads(read[tuple(index)])
        T.writes(xs[tuple(index)])
        T.sblock_attr({VECTOR: vector})
        T.buffer_store(xs, fp32(read[tuple(index)]), index)


def _places(c: Contraction, tile: Plane, taps: Any, places: Any) -> None:
    """Emit the block that turns a tap into its distance in the staged window."""
    _, width = window(c, (tile.height, tile.width))
    slots = places.shape[1]
    with T.grid(*places.shape) as axes, T.sblock("places"):
        channel, slot = T.axis.remap("SS", axes)
        stored = taps[channel // tile.lanes * slots + slot, channel % tile.lanes]
        T.reads(stored)
        T.writes(places[channel, slot])
        tap = tirx.Cast("int32", stored)
        across = tirx.const(c.taps[1], "int32")
        down, right = tap // across, tap % across
        distance = down * (c.dilation[0] * width) + right * c.dilation[1]
        T.buffer_store(places, distance, [channel, slot])


def _weights(values: Any, weights: Any) -> None:
    """Emit the block that reads the values of a channel, as fp32."""
    lanes, slots = values.shape[1], weights.shape[1]
    with T.grid(*weights.shape) as axes, T.sblock("weights"):
        channel, slot = T.axis.remap("SS", axes)
        value = values[channel // lanes * slots + slot, channel % lanes]
        T.reads(value)
        T.writes(weights[channel, slot])
        T.buffer_store(weights, fp32(value), [channel, slot])


def _contract(c: Contraction, tile: Plane, operands: Buffers, acc: tirx.Buffer) -> None:
    """Emit the block that accumulates one slot."""
    xs, places, weights = operands
    _, width = window(c, (tile.height, tile.width))
    with T.grid(*acc.shape, places.shape[1]) as axes, T.sblock("contract"):
        b, row, column, channel, slot = T.axis.remap("SSSSR", axes)
        down, right = row // tile.height, column // tile.width
        group, lane = channel // tile.lanes, channel % tile.lanes
        first = row % tile.height * (c.strides[0] * width) + column % tile.width * c.strides[1]
        at = (b, row, column, channel)
        T.reads(
            xs[b, down, right, group, 0 : xs.shape[4], lane],
            places[channel, slot],
            weights[channel, slot],
        )
        T.writes(acc[at])
        T.sblock_attr(
            {OPERATOR: "depthwise_taps_lane", TILE: [tile.height, tile.width, tile.lanes]}
        )
        with T.init():
            T.buffer_store(acc, tirx.const(0, FLOAT_SUMS), list(at))
        pixel = xs[b, down, right, group, first + places[channel, slot], lane]
        T.buffer_store(acc, acc[at] + pixel * weights[channel, slot], list(at))
