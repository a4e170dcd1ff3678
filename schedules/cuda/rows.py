"""Rows that the threads of a GPU reduce together and then write: softmax, norms."""

from __future__ import annotations

import math

from tvm import s_tir, tirx
from tvm.target import Target

from tvm_sparse.ops.tensors.rows import WHOLE
from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.cuda import threads as t
from tvm_sparse.schedules.cuda.reduced_rows import UNROLLED, Rows, take_apart
from tvm_sparse.schedules.rule import ScheduleRule

SHARE = 8
"""Elements of a row for each of its threads, at least, while a warp suffices."""

UNKNOWN = 512
"""Elements that a row of open length counts as."""

LONG = 256
"""Elements of a row that several threads reduce, if rows lie one behind the other."""


class RowsRule(ScheduleRule):
    """Schedule rows whose elements are side by side: threads reduce a row together.

    before: max --> exp --> sum --> normalise --> element-wise blocks
    after:  for rows of a block: { max; sum, over threads; the rest }
    """

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> s_tir.Schedule | None:
        """Schedule ``func`` if its reductions are marked, or long."""
        parts = take_apart(func)
        if parts is None or not (b.marked(parts.sch, (WHOLE,)) is not None or self._pays(parts)):
            return None
        sch, length = parts.sch, parts.length
        warps = max(1, min(t.DEFAULT_THREADS // t.WARP, (length or UNKNOWN) // (t.WARP * SHARE)))
        across = t.WARP * (1 << (warps.bit_length() - 1))
        # Rows past the last one have no room: where their number is open, a block has one.
        down = math.gcd(parts.count, t.DEFAULT_THREADS // across) if parts.count else 1
        grid, beside = sch.split(parts.numbered(), [None, down])
        sch.bind(grid, "blockIdx.x")
        sch.bind(beside, "threadIdx.y")
        for block in reversed(parts.totals):
            sch.set_scope(block, 0, "local")
            sch.compute_at(block, beside, preserve_unit_loops=True)
            _spread(sch, sch.fuse(*parts.reduced(block)), across)
        if parts.inner:
            _spread(sch, sch.fuse(*parts.inner), across)
        return sch

    @staticmethod
    def _pays(parts: Rows) -> bool:
        """Whether long rows lie side by side, and are written."""
        one = all(len(parts.sch.get(block).writes) == 1 for block in parts.totals)
        long = parts.length is not None and parts.length >= LONG
        beside = all(parts.side_by_side(block) for block in parts.totals)
        return one and long and beside and bool(parts.inner)


def _spread(sch: s_tir.Schedule, loop: b.LoopRV, across: int) -> None:
    """Give neighbouring threads neighbouring elements."""
    step, thread = sch.split(loop, [None, across])
    sch.bind(thread, "threadIdx.x")
    extent = b.extent(sch, step)
    if extent is not None and extent <= UNROLLED:
        sch.unroll(step)
