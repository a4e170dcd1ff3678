"""Depthwise convolutions with pruned taps on GPUs: windows in shared memory, sums in registers."""

from __future__ import annotations

from typing import Any

from tvm import s_tir, tirx
from tvm.target import Target

from tvm_sparse.ops.marks import TILE, VECTOR
from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.blocks import BlockRV, LoopRV
from tvm_sparse.schedules.cuda import threads as t
from tvm_sparse.schedules.isolate import isolate
from tvm_sparse.schedules.rule import ScheduleRule

OWN = ("load_x", "stage_x", "places", "weights")


class DepthwiseTapsLaneRule(ScheduleRule):
    """Schedule a depthwise convolution with taps of its own for each channel.

    before: stage_x, places, weights --> contract --> store --> element-wise blocks
    after:  for block: { stage_x; for thread: { places, weights; unrolled slots x pixels;
    epilogue } }
    """

    marks = ("depthwise_taps_lane",)

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> s_tir.Schedule | None:
        """Schedule ``func`` if it holds a block marked ``depthwise_taps_lane``."""
        sch = s_tir.Schedule(func)
        anchor = b.marked(sch, self.marks)
        if anchor is None:
            return None
        height, width, lanes = (int(e) for e in sch.get(anchor).annotations[TILE])
        last = isolate(sch, anchor, keep=OWN)
        batch, row, column, channel, slot = sch.get_loops(anchor)
        row, row_in = sch.split(row, [None, height])
        column, column_in = sch.split(column, [None, width])
        group, lane = sch.split(channel, [None, lanes])
        sch.reorder(batch, row, column, group, row_in, lane, slot, column_in)
        grid = sch.fuse(batch, row, column, group)
        sch.bind(grid, "blockIdx.x")
        sch.bind(row_in, "threadIdx.y")
        sch.bind(lane, "threadIdx.x")
        sch.set_scope(anchor, 0, "local")
        sch.reverse_compute_at(last, lane, preserve_unit_loops=True)
        for name in OWN[2:]:
            _registers(sch, sch.get_sblock(name), lane)
        self._stage(sch, grid, (("threadIdx.y", height), ("threadIdx.x", lanes)))
        for loop in (slot, column_in, *sch.get_loops(last)[3:]):
            sch.unroll(loop)
        init = sch.decompose_reduction(anchor, slot)
        for loop in sch.get_loops(init)[3:]:
            sch.unroll(loop)
        t.bind_leftovers(sch, target)
        return sch

    @staticmethod
    def _stage(sch: s_tir.Schedule, grid: Any, threads: t.Threads) -> None:
        """Let all threads of a block stage its window, whole vectors of channels each."""
        block = sch.get_sblock("stage_x")
        vector = int(sch.get(block).annotations[VECTOR])
        sch.compute_at(block, grid, preserve_unit_loops=True)
        step = t.spread(sch, sch.get_loops(block)[-2:], threads, vector)
        load = sch.get_sblock("load_x")
        sch.set_scope(load, 0, "local")
        sch.compute_at(load, step, preserve_unit_loops=True)
        sch.vectorize(sch.get_loops(load)[-1])


def _registers(sch: s_tir.Schedule, block: BlockRV, loop: LoopRV) -> None:
    """Compute ``block`` once for what the iterations of ``loop`` need, in registers."""
    sch.set_scope(block, 0, "local")
    sch.compute_at(block, loop, preserve_unit_loops=True)
    for inner in sch.get_loops(block)[3:]:
        sch.unroll(inner)
