"""The kernel that adds the partial sums of a reduction that is cut into parts."""

from __future__ import annotations

from tvm import s_tir

from tvm_sparse.ops.cuda.parts import TOTAL
from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.cuda import threads as t

THREADS = 256
VECTOR = 4
"""Sums of 32 bits that a load takes."""


def add_parts(sch: s_tir.Schedule) -> None:
    """Give the block that adds partial sums, and the epilogue behind it, a grid of their own.

    before: total_parts --> store --> ...
    after:  for block, thread: { for part, in order: add; epilogue }

    Nothing happens where a reduction is whole.
    """
    if TOTAL not in {sch.get(block).name_hint for block in b.all_blocks(sch)}:
        return
    total = sch.get_sblock(TOTAL)
    (last,) = sch.get_consumers(total)
    t.flatten_rows(sch, last)
    row, feature = sch.get_loops(last)
    vector = min(VECTOR, t.vector_width(sch, last, b.extent(sch, feature)))
    outer, lane = sch.split(feature, [None, vector])
    grid, thread = sch.split(sch.fuse(row, outer), [None, THREADS])
    sch.bind(grid, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    sch.vectorize(lane)
    sch.set_scope(total, 0, "local")
    sch.compute_at(total, thread, preserve_unit_loops=True)
    _, feature, part = sch.get_loops(total)[-3:]
    outer, lane = sch.split(feature, [None, vector])
    sch.reorder(part, outer, lane)
    sch.vectorize(lane)
    for loop in (part, outer):
        sch.unroll(loop)
    init = sch.decompose_reduction(total, part)
    _, lane = sch.get_loops(init)[-2:]
    sch.vectorize(lane)
