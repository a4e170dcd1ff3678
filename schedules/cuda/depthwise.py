"""Depthwise convolutions on GPUs: the window of a strip in registers, channels side by side."""

from __future__ import annotations

from tvm import s_tir, tirx
from tvm.target import Target

from tvm_sparse.ops.marks import TILE
from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.cuda import threads as t
from tvm_sparse.schedules.isolate import isolate
from tvm_sparse.schedules.rule import ScheduleRule

THREADS = 192


class DepthwiseStripRule(ScheduleRule):
    """Schedule a depthwise convolution: a thread computes a strip for 16 bytes of channels.

    before: stage_x --> contract --> store --> element-wise blocks
    after:  for thread: { read window; unrolled taps x pixels; epilogue }
    """

    marks = ("depthwise_strip",)

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> s_tir.Schedule | None:
        """Schedule ``func`` if it holds a block marked ``depthwise_strip``."""
        sch = s_tir.Schedule(func)
        anchor = b.marked(sch, self.marks)
        if anchor is None:
            return None
        height, width = (int(e) for e in sch.get(anchor).annotations[TILE])
        last = isolate(sch, anchor, keep=("stage_x",))
        batch, row, column, channel, *taps = sch.get_loops(anchor)
        stage = sch.get_sblock("stage_x")
        lanes = t.vector_width(sch, stage, b.extent(sch, channel))
        row, row_in = sch.split(row, [None, height])
        column, column_in = sch.split(column, [None, width])
        vector, lane = sch.split(channel, [None, lanes])
        vectors = b.extent(sch, vector)
        most = max(1, THREADS // vectors)
        strips = max(d for d in b.divisors(b.extent(sch, column), most))
        column, strip = sch.split(column, [None, strips])
        groups, vector = sch.split(vector, [None, min(vectors, THREADS)])
        sch.reorder(batch, row, column, groups, strip, vector, *taps, row_in, column_in, lane)
        grid, thread = sch.fuse(batch, row, column, groups), sch.fuse(strip, vector)
        sch.bind(grid, "blockIdx.x")
        sch.bind(thread, "threadIdx.x")
        for loop in (*taps, row_in, column_in, lane):
            sch.unroll(loop)
        sch.set_scope(anchor, 0, "local")
        sch.reverse_compute_at(last, thread, preserve_unit_loops=True)
        sch.set_scope(stage, 0, "local")
        sch.compute_at(stage, thread, preserve_unit_loops=True)
        weights = sch.cache_read(anchor, 1, "local")
        sch.compute_at(weights, thread, preserve_unit_loops=True)
        for block in (last, stage, weights):
            *rest, inner = sch.get_loops(block)[2:]
            outer, lane = sch.split(inner, [None, t.vector_width(sch, block, lanes)])
            sch.vectorize(lane)
            for loop in (*rest, outer):
                sch.unroll(loop)
        init = sch.decompose_reduction(anchor, taps[0])
        for loop in sch.get_loops(init)[2:]:
            sch.unroll(loop)
        t.bind_leftovers(sch, target)
        return sch
