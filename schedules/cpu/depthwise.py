"""Depthwise convolutions on CPUs: a strip of pixels by one vector of channels in registers."""

from __future__ import annotations

from tvm import s_tir, tirx
from tvm.target import Target

from tvm_sparse.ops.marks import ROWS
from tvm_sparse.schedules.cpu import blocks as b
from tvm_sparse.schedules.rule import ScheduleRule
from tvm_sparse.schedules.sampling import choose, near_and_far

STRIP = 8
"""Pixels of a strip: eight accumulators, and each loaded pixel serves several taps."""


class Depthwise(ScheduleRule):
    """Unroll all taps over a strip of pixels.

    before: contract --> store --> element-wise blocks
    after:  for row, strip, channels: { init; unrolled taps x pixels; epilogue }
    """

    def feasible(self, schedule: s_tir.Schedule) -> bool:
        """Whether the register tile fits the registers."""
        return b.registers(schedule, "contract") <= b.MOST_REGISTERS

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> s_tir.Schedule | None:
        """Schedule ``func`` if it holds a block marked ``depthwise``."""
        sch = s_tir.Schedule(func)
        anchor = b.marked(sch, ("depthwise",))
        if anchor is None:
            return None
        axis = int(sch.get(anchor).annotations[ROWS])
        flops = b.flops(sch, anchor)
        epilogue = b.isolate(sch, anchor)
        loops = sch.get_loops(anchor)
        spatial = b.spatial_count(sch, anchor)
        *lead, channel = loops[:spatial]
        taps = loops[spatial:]
        extent = b.extent(sch, lead[axis]) or 1
        strips = b.divisors(extent, 2 * STRIP)
        strip = choose(sch, strips, max(d for d in strips if d <= STRIP), tunable)
        row_out, row_in = sch.split(lead[axis], [None, strip])
        channels = b.extent(sch, channel)
        widths = [w for w in (16, 32, 64) if channels and channels % w == 0]
        lanes = choose(sch, widths, b.lanes(channels), tunable)
        block, lane = sch.split(channel, [None, lanes])
        others = [loop for i, loop in enumerate(lead) if i != axis]
        far, near = near_and_far(sch, row_out, tunable, near=1)
        outer = [*others, *far, block, *near]
        sch.reorder(*outer, *taps, row_in, lane)
        sch.vectorize(lane)
        for loop in (*taps, row_in):
            sch.unroll(loop)
        sch.set_scope(anchor, 0, "local")
        sch.reverse_compute_at(epilogue, outer[-1], preserve_unit_loops=True)
        b.vectorise_tile(sch, epilogue, len(outer), lanes, tunable)
        if flops > b.PARALLEL_FLOPS:
            sch.parallel(sch.fuse(*others))
        sch.decompose_reduction(anchor, taps[0])
        b.finish(sch)
        return sch
