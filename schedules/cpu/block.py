"""Contractions that walk a table on CPUs: kept blocks, kept banks, kept taps of kernels."""

from __future__ import annotations

import math

from tvm import s_tir, tirx
from tvm.target import Target

from tvm_sparse.base.numerics import bits_of
from tvm_sparse.machine.record import Caches
from tvm_sparse.machine.registry import machine_of
from tvm_sparse.machine.vector import LANES, MOST_ACCUMULATORS
from tvm_sparse.ops.marks import ROWS
from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.blocks import BlockRV, LoopRV
from tvm_sparse.schedules.cpu import cores, simd
from tvm_sparse.schedules.cpu.order import images_first
from tvm_sparse.schedules.cpu.overlap_tiles import overlap
from tvm_sparse.schedules.isolate import isolate
from tvm_sparse.schedules.rule import ScheduleRule
from tvm_sparse.schedules.sampling import choose, near_and_far

OPERATORS = ("block", "joint", "depthwise_taps")
"""Operators whose reduction is ``(entry, step)``: a table's entry, and steps inside it."""

MAX_ROWS = 8
"""Rows of activations are often 4096 bytes apart: more of them than ways of L1 evict each other."""

MIN_TASKS = 16
"""Tasks that keep some threads busy evenly; also the row tiles that make an order worth it."""

MAX_STEPS = 32
"""Multiply-adds of one unrolled step: longer ones run from memory, not from the decoder's cache."""


def default_rows(extent: int | None, vectors: int, accumulators: int) -> int:
    """Return how many output rows fit a register tile with the ``vectors`` of a block row."""
    most = max(1, min(MAX_ROWS, accumulators // vectors))
    whole = max(b.divisors(extent or 1, most))
    return whole if 2 * whole > most else min(extent or 1, most)


def leave_room(sch: s_tir.Schedule, anchor: BlockRV, rows: int, caches: Caches) -> int:
    """Return half of ``rows`` if all of them fill the first cache, and half of them do not.

    Sparse columns meet lines of every row again and again: they should stay in that cache, beside
    weights and results. But weights pass once a row tile, so three quarters of the second cache
    should hold them. Four rows of 4096 bytes take 0.65 and 0.8 of the time of eight with 256 and
    512 KiB of weights, and 1.1 of it with a megabyte.
    """
    activations, *weights = (read.source for read in sch.get(anchor).reads)
    line = int(activations.ty.shape[-1]) * bits_of(str(activations.ty.dtype)) // 8
    size = sum(map(b.nbytes, weights))
    helps = rows * line >= caches.first > rows // 2 * line and 4 * size <= 3 * caches.second
    return rows // 2 if helps else rows


class BlockRule(ScheduleRule):
    """Keep the results of a block row and a few output rows in registers.

    before: contract --> store --> element-wise blocks
    after:  for block row, row tile: { init; for entry: unrolled multiply-adds; epilogue }
    """

    marks = OPERATORS

    version = 2

    def feasible(self, schedule: s_tir.Schedule) -> bool:
        """Whether the register tile fits the registers."""
        return simd.registers(schedule, "contract") <= MOST_ACCUMULATORS

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> s_tir.Schedule | None:
        """Schedule ``func`` if it holds a block of one of :data:`OPERATORS`."""
        sch = s_tir.Schedule(func)
        anchor = b.marked(sch, self.marks)
        if anchor is None:
            return None
        axis = int(sch.get(anchor).annotations[ROWS])
        flops = b.flops(sch, anchor) * LANES
        epilogue = isolate(sch, anchor)
        *lead, slot, member, entry, step = sch.get_loops(anchor)
        lanes = int(sch.get(anchor).writes[0].region[-1].extent)
        extent, vectors = b.extent(sch, lead[axis]), b.extent(sch, member)
        machine = machine_of(target)
        sums = bits_of(str(sch.get(anchor).writes[0].source.ty.dtype))
        rows = default_rows(extent, vectors, machine.sums_of(sums))
        rows = leave_room(sch, anchor, rows, machine.caches)
        partial = extent is not None and extent % rows != 0
        options = range(1, 2 * MAX_ROWS) if partial else b.divisors(extent or 1, 2 * MAX_ROWS)
        tile = choose(sch, list(options), rows, tunable)
        row_out, row = sch.split(lead[axis], [None, tile])
        others = [loop for i, loop in enumerate(lead) if i != axis]
        images = images_first(sch, anchor, others, machine.caches.second)
        sizes = [b.extent(sch, loop) or 1 for loop in (slot, member, entry, step)]
        tiles = [*(b.extent(sch, loop) or 1 for loop in others), extent or 1]
        # Weights that stay cached pass once a row tile: outputs are written whole rows at a time.
        fits = 4 * lanes * math.prod(sizes) <= machine.caches.last
        first = fits and math.prod(tiles) >= MIN_TASKS * rows
        far_rows, near_rows = near_and_far(sch, row_out, tunable, near=1 if first else None)
        far_slots, near_slots = near_and_far(sch, slot, tunable, near=None if first else 1)
        outer = [*others[:images], *far_slots, *others[images:], *far_rows]
        near = [*near_slots, *near_rows]
        steps = b.divisors(sizes[-1], max(1, MAX_STEPS // (rows * vectors)))
        run_out, run = sch.split(step, [None, choose(sch, steps, max(steps), tunable)])
        sch.reorder(*outer, *near, entry, run_out, run, row, member)
        for loop in (run, row, member):
            sch.unroll(loop)
        sch.set_scope(anchor, 0, "local")
        sch.reverse_compute_at(epilogue, near[-1], preserve_unit_loops=True)
        simd.vectorise_tile(sch, epilogue, len(outer) + len(near), lanes, tunable)
        if cores.worthwhile(flops, target):
            _parallel(sch, outer)
        overlap(sch, anchor, epilogue)
        sch.decompose_reduction(anchor, entry)
        simd.finish(sch)
        return sch


def _parallel(sch: s_tir.Schedule, outer: list[LoopRV]) -> None:
    """Run the outermost loops on all threads: as few as give enough tasks, which may be long."""
    tasks, count = [], 1
    for loop in outer:
        tasks.append(loop)
        count *= b.extent(sch, loop) or 1
        if count >= MIN_TASKS:
            break
    sch.parallel(sch.fuse(*tasks))
