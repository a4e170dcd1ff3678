"""Depthwise + pointwise convolution in one kernel: the first one computes what is staged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import s_tir, tirx
from tvm.target import Target

from tvm_sparse.ops.cuda.multiply import EDGE
from tvm_sparse.ops.cuda.separable import STRIPS, SUMS, WINDOW
from tvm_sparse.ops.cuda.tile import COPIES
from tvm_sparse.ops.marks import TILE
from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.blocks import LoopRV
from tvm_sparse.schedules.cuda import threads as t
from tvm_sparse.schedules.cuda import tile as tl
from tvm_sparse.schedules.cuda.tile_scalar import VECTOR, load_operands, unroll_vectors
from tvm_sparse.schedules.cuda.tile_tensor_core import (
    FRAGMENTS,
    load_fragments,
    through_shared,
)
from tvm_sparse.schedules.isolate import isolate
from tvm_sparse.schedules.rule import ScheduleRule

WEIGHTS = COPIES[1]
"""Name of the block that copies the weights of the 1x1 convolution."""


@dataclass(frozen=True)
class Pieces:
    """Pixels and channels of a strip, and the pieces of the product along rows and features."""

    strip: int
    lanes: int
    down: int
    across: int


class SeparableRule(ScheduleRule):
    """Schedule a depthwise convolution merged with the 1x1 convolution behind it.

    before: stage_window --> sum_taps --> element-wise blocks --> stage_x --> contract --> ...
    after:  for block: { for channels: { copy weights; strips of sums to shared memory; multiply };
    epilogue }

    Copies of weights are plain ones: TVM commits asynchronous ones of a single stage only behind
    the products that wait for them, and two stages would double the code of the strips.
    """

    marks = ("separable",)

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> s_tir.Schedule | None:
        """Schedule ``func`` if it holds a block marked ``separable``."""
        sch = s_tir.Schedule(func)
        if b.marked(sch, self.marks) is None:
            return None
        anchor = b.marked(sch, ("tile_scalar", "tile_tensor_core"))
        rows, features, columns = (int(e) for e in sch.get(anchor).annotations[TILE])
        shape = Pieces(*(int(e) for e in sch.get(sch.get_sblock(STRIPS)).annotations[TILE]))
        last = isolate(sch, anchor, keep=(WINDOW, SUMS, STRIPS, WEIGHTS, *FRAGMENTS))
        if tensor_core := sch.get(last).name_hint == FRAGMENTS[2]:
            (last,) = sch.get_consumers(last)
        t.flatten_rows(sch, last)
        parts = tl.Parts(sch, anchor, last, (rows, features, columns))
        threads, step = (_tensor_core if tensor_core else _scalar)(parts, shape)
        _copy_weights(parts, step, threads)
        _compute_strips(sch, shape, step, threads)
        for block in map(sch.get_sblock, (STRIPS, WEIGHTS)):
            offset = t.VECTOR_BYTES // t.item_bytes(sch, block)
            sch.storage_align(block, 0, axis=-2, factor=32, offset=offset)
        init = sch.decompose_reduction(anchor, step)
        outer = len(threads) + 2
        for loop in sch.get_loops(init)[outer:]:
            sch.unroll(loop)
        return tl.finish(parts, target)


def _copy_weights(parts: tl.Parts, step: LoopRV, threads: t.Threads) -> None:
    """Copy a step's weights to shared memory, 16 bytes a thread."""
    sch = parts.sch
    block = sch.get_sblock(WEIGHTS)
    vector = t.vector_width(sch, block, parts.tile[1])
    sch.compute_at(block, step, preserve_unit_loops=True)
    sch.unroll(t.spread(sch, sch.get_loops(block)[-2:], threads, vector))


def _compute_strips(sch: s_tir.Schedule, shape: Pieces, step: LoopRV, threads: t.Threads) -> None:
    """Let every thread compute strips of the depthwise half, window and weights in registers."""
    block, window, sums = (sch.get_sblock(name) for name in (STRIPS, WINDOW, SUMS))
    sch.compute_at(block, step, preserve_unit_loops=True)
    *_, piece, pixel, k = sch.get_loops(block)
    vector, lane = sch.split(k, [None, shape.lanes])
    sch.reorder(piece, vector, pixel, lane)
    turn, *axes = sch.split(sch.fuse(piece, vector), [None, *(extent for _, extent in threads)])
    sch.reorder(*axes, turn)
    for axis, (tag, _) in zip(axes, threads, strict=True):
        sch.bind(axis, tag)
    sch.unroll(pixel)
    sch.vectorize(lane)
    taps = sch.cache_read(sums, 1, "local")
    for part in (sums, taps, window):
        sch.set_scope(part, 0, "local")
        sch.compute_at(part, turn, preserve_unit_loops=True)
    outer = len(sch.get_loops(sums)) - 4
    for part in (sums, taps, window):
        *rest, last = sch.get_loops(part)[outer:]
        vectors, lane = sch.split(last, [None, shape.lanes])
        (sch.unroll if part is sums else sch.vectorize)(lane)
        for loop in (*rest, vectors):
            sch.unroll(loop)


def _tensor_core(parts: tl.Parts, shape: Pieces) -> tuple[t.Threads, Any]:
    """Share 16 x 16 tiles among warps; return the threads and the loop over steps of channels."""
    sch, (rows, _, columns) = parts.sch, parts.tile
    threads = (
        ("threadIdx.z", shape.across),
        ("threadIdx.y", shape.down),
        ("threadIdx.x", t.WARP),
    )
    row, block, feature, lane, k = sch.get_loops(parts.anchor)
    row, row_warp, row_in = sch.split(row, [None, shape.down, rows // EDGE // shape.down])
    warp, inner = sch.split(feature, [shape.across, None])
    step, k_in = sch.split(k, [None, columns // EDGE])
    sch.reorder(row, block, warp, row_warp, lane, step, k_in, row_in, inner)
    _bind(sch, (row, block), (warp, row_warp, lane), threads)
    through_shared(parts, block, lane, threads)
    load_fragments(sch, k_in)
    sch.set_scope(parts.anchor, 0, "local")
    for loop in (k_in, row_in, inner):
        sch.unroll(loop)
    return threads, step


def _scalar(parts: tl.Parts, shape: Pieces) -> tuple[t.Threads, Any]:
    """Give each thread four features of some rows; return the threads and the loop over steps."""
    sch, (rows, _, columns) = parts.sch, parts.tile
    threads = (("threadIdx.y", shape.down), ("threadIdx.x", shape.across))
    row, block, feature, k = sch.get_loops(parts.anchor)
    row, row_thread, row_in = sch.split(row, [None, shape.down, rows // shape.down])
    thread, lane = sch.split(feature, [shape.across, VECTOR])
    step, k_vector, k_in = sch.split(k, [None, columns // VECTOR, VECTOR])
    sch.reorder(row, block, row_thread, thread, step, k_vector, k_in, row_in, lane)
    _bind(sch, (row, block), (row_thread, thread), threads)
    sch.set_scope(parts.anchor, 0, "local")
    sch.reverse_compute_at(parts.last, thread, preserve_unit_loops=True)
    unroll_vectors(sch, sch.get_loops(parts.last)[4:])
    load_operands(parts, k_vector)
    for loop in (k_vector, k_in, row_in, lane):
        sch.unroll(loop)
    return threads, step


def _bind(
    sch: s_tir.Schedule, grid: tuple[Any, ...], loops: tuple[Any, ...], threads: t.Threads
) -> None:
    for loop, axis in zip(grid, "xy", strict=True):
        sch.bind(loop, f"blockIdx.{axis}")
    for loop, (tag, _) in zip(loops, threads, strict=True):
        sch.bind(loop, tag)
