"""Depthwise convolutions on CPUs: a strip of pixels by one vector of channels in registers."""

from __future__ import annotations

import math
from typing import Any

from tvm import s_tir, tirx
from tvm.target import Target

from tvm_sparse.machine.vector import LANES, MOST_ACCUMULATORS
from tvm_sparse.ops.contractions.contraction import OPEN_ROWS
from tvm_sparse.ops.contractions.depthwise_columns import COLUMNS, ROWS_TOGETHER, SHARED
from tvm_sparse.ops.marks import OPERATOR, ROWS
from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.blocks import BlockRV, LoopRV
from tvm_sparse.schedules.cpu import cores, simd
from tvm_sparse.schedules.cpu.overlap_tiles import overlap
from tvm_sparse.schedules.cpu.versions import versions
from tvm_sparse.schedules.isolate import isolate
from tvm_sparse.schedules.rule import ScheduleRule
from tvm_sparse.schedules.sampling import choose, near_and_far

OPERATORS = ("depthwise", COLUMNS, ROWS_TOGETHER)
"""Marks of the blocks that the rule schedules."""

WIDTHS = (LANES // 2, LANES, 2 * LANES, 4 * LANES)
"""Channels of a vector: one register of 256 bits, or one to four of 512."""

STRIP = 8
"""Pixels of a strip: eight accumulators, and each loaded pixel serves several taps."""

LOADED = 3
"""Multiply-adds of a contraction that take as long as one here, where activations are loaded."""

MAX_WIDTH = 64
"""Padded input pixels of a row up to which one vector of channels passes the whole row.

Its taps then stay in registers from strip to strip: 8 % less time for the 3x3 planes of stride 1,
up to 56 pixels wide, of MobileNetV2. Longer rows are read faster strip by strip, all channels."""


class DepthwiseRule(ScheduleRule):
    """Unroll all taps over a strip of pixels.

    before: contract --> store --> element-wise blocks
    after:  for row, channels, strip: { init; unrolled taps x pixels; epilogue }

    On wide planes, strips are outside channels. Rows that read the same words of input are in one
    strip.
    """

    marks = OPERATORS

    version = 2

    def feasible(self, schedule: s_tir.Schedule) -> bool:
        """Whether the register tile fits the registers."""
        return simd.registers(schedule, "contract") <= MOST_ACCUMULATORS

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> s_tir.Schedule | None:
        """Schedule ``func`` if it holds a block with one of :data:`OPERATORS`."""
        sch = s_tir.Schedule(func)
        anchor = b.marked(sch, self.marks)
        if anchor is None:
            return None
        axis = int(sch.get(anchor).annotations[ROWS])
        row = sch.get(sch.get_loops(anchor)[axis]).extent
        if tunable or isinstance(row, tirx.IntImm):
            return self._scheduled(sch, target, tunable)

        def made(func: tirx.PrimFunc, pixels: int) -> s_tir.Schedule:
            return self._scheduled(s_tir.Schedule(func), target, open_row=pixels)

        cases = [([(row, STRIP)], lambda f: made(f, STRIP))]
        return versions(func, cases, lambda f: made(f, 1))

    @staticmethod
    def _scheduled(
        sch: s_tir.Schedule, target: Target, tunable: bool = False, open_row: int = 1
    ) -> s_tir.Schedule:
        """Schedule a function; open rows have strips as if they had ``open_row`` pixels."""
        anchor = b.marked(sch, OPERATORS)
        annotations = sch.get(anchor).annotations
        operator, axis = str(annotations[OPERATOR]), int(annotations[ROWS])
        in_vectors = operator != "depthwise"
        flops = _flops(sch, anchor, axis, open_row) * (LANES if in_vectors else 1)
        epilogue = isolate(sch, anchor)
        loops = sch.get_loops(anchor)
        spatial = b.spatial_count(sch, anchor)
        first_channel = spatial - (2 if in_vectors else 1)
        lead, channels, taps = loops[:first_channel], loops[first_channel:spatial], loops[spatial:]
        first = _input_width(sch, anchor, axis) > MAX_WIDTH
        extent = b.extent(sch, lead[axis]) or open_row
        strips = b.divisors(extent, 2 * STRIP)
        strip = choose(sch, strips, max(d for d in strips if d <= STRIP), tunable)
        row_out, row_in = sch.split(lead[axis], [None, strip])
        others = [loop for i, loop in enumerate(lead) if i != axis]
        others[-1], together = _together(sch, operator, others[-1])
        far, near = near_and_far(sch, row_out, tunable, near=1 if first else None)
        heavy = cores.worthwhile(LOADED * flops, target)
        lead = [*others[:axis], row_out, *others[axis:]]
        *images, plane = others
        part, rest = cores.split_plane(sch, anchor, lead, axis, target) if heavy else ([], [plane])
        shared = [*images, *(part or rest)]
        channel, some = channels[0], list[LoopRV]()
        lanes = LANES if in_vectors else simd.lanes(b.extent(sch, channel))
        if heavy and not first and b.extent(sch, shared[-1]) is not None:
            vector = 1 if in_vectors else lanes
            some, channel = cores.split_evenly(sch, shared, channel, vector, target)
        block, lane = channel, channels[-1]
        if not in_vectors:
            block, lane, lanes = _vectors(sch, channel, lanes, tunable)
        far_blocks, near_blocks = near_and_far(sch, block, tunable, near=None)
        shared = [*shared, *some] if part else [*far_blocks, *shared, *some]
        inside = [*far_blocks, *rest] if part else []
        outer = [*shared, *inside, *far, *near_blocks, *near]
        far_taps, near_taps = _unrolled(sch, taps, tunable)
        sch.reorder(*outer, *far_taps, *near_taps, *together, row_in, lane)
        if not in_vectors:
            sch.vectorize(lane)
        for loop in (*near_taps, *together, row_in):
            sch.unroll(loop)
        sch.set_scope(anchor, 0, "local")
        sch.reverse_compute_at(epilogue, outer[-1], preserve_unit_loops=True)
        simd.vectorise_tile(sch, epilogue, len(outer), lanes, tunable)
        if open_row > 1:
            overlap(sch, anchor, epilogue, enough=True)
        if heavy:
            sch.parallel(sch.fuse(*shared))
        sch.decompose_reduction(anchor, (far_taps or near_taps)[0])
        simd.finish(sch)
        return sch


def _together(sch: s_tir.Schedule, operator: str, loop: LoopRV) -> tuple[Any, list[Any]]:
    """Return the loop over lines, or over pairs of lines, and those over the lines of a pair."""
    if operator != ROWS_TOGETHER:
        return loop, []
    pairs, line = sch.split(loop, [None, SHARED])
    return pairs, [line]


def _vectors(
    sch: s_tir.Schedule, channel: LoopRV, lanes: int, tunable: bool
) -> tuple[Any, Any, Any]:
    """Return the loops over vectors of channels and over a vector, and how long vectors are.

    That is ``lanes``, unless it is tuned.
    """
    channels = b.extent(sch, channel)
    widths = [w for w in WIDTHS if channels and channels % w == 0]
    decided = choose(sch, widths, lanes, tunable)
    return *sch.split(channel, [None, decided]), decided


def _input_width(sch: s_tir.Schedule, anchor: BlockRV, axis: int) -> float:
    """Return the extent of the input's axis ``axis``; infinite if it is symbolic."""
    extent = sch.get(anchor).reads[0].source.shape[axis]
    return int(extent) if isinstance(extent, tirx.IntImm) else math.inf


def _unrolled(
    sch: s_tir.Schedule, taps: list[LoopRV], tunable: bool
) -> tuple[list[Any], list[Any]]:
    """Return the loops over taps that stay loops and those to unroll: by default all of them."""
    rows = b.extent(sch, taps[0])
    if not tunable or rows == 1:
        return [], taps
    far, near = sch.split(taps[0], [None, choose(sch, b.divisors(rows, rows), rows, tunable)])
    return [far], [near, *taps[1:]]


def _flops(sch: s_tir.Schedule, anchor: BlockRV, axis: int, open_row: int) -> float:
    """Return the operations of a block; open extents count :data:`OPEN_ROWS`, short rows one."""
    extents = [b.extent(sch, loop) for loop in sch.get_loops(anchor)]
    still_open = (i for i, extent in enumerate(extents) if extent is None)
    return b.flops(sch, anchor) * OPEN_ROWS ** sum(i != axis or open_row > 1 for i in still_open)
