"""Softmax, its logarithm and layer norm on GPUs: a row belongs to a warp, a long one to several."""

from __future__ import annotations

import math

from tvm import s_tir, tirx
from tvm.target import Target

from tvm_sparse.ops.tensors.rows import WHOLE
from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.cuda import threads as t
from tvm_sparse.schedules.rule import ScheduleRule

THREADS = 256
"""Threads of a block: several short rows, or one long one."""

SHARE = 8
"""Elements of a row for each of its threads, at least, while a warp suffices."""


UNKNOWN = 512
"""Elements that a row of open length counts as."""


class RowsRule(ScheduleRule):
    """Schedule what reduces rows and then writes them; a thread block has whole rows.

    before: max --> exp --> sum --> normalise --> element-wise blocks
    after:  for rows of a block: { max; sum, over threads; the rest }
    """

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> s_tir.Schedule | None:
        """Schedule ``func`` if its reductions are marked, and one block is behind them."""
        sch = s_tir.Schedule(func)
        if b.marked(sch, (WHOLE,)) is None:
            return None
        b.inline(sch)
        *totals, last = b.all_blocks(sch)
        reduces = [b.is_reduction(sch, block) for block in (*totals, last)]
        if reduces != [True] * len(totals) + [False]:
            return None
        t.flatten_rows(sch, last)
        row, column = sch.get_loops(last)
        rows, columns = b.extent(sch, row), b.extent(sch, column)
        if any(columns != _length(sch, block) for block in totals):
            return None
        warps = max(1, min(THREADS // t.WARP, (columns or UNKNOWN) // (t.WARP * SHARE)))
        across = t.WARP * (1 << (warps.bit_length() - 1))
        # Rows past the last one have no room: where their number is open, a block has one.
        down = math.gcd(rows, THREADS // across) if rows else 1
        grid, beside = sch.split(row, [None, down])
        sch.bind(grid, "blockIdx.x")
        sch.bind(beside, "threadIdx.y")
        for block in reversed(totals):
            sch.set_scope(block, 0, "local")
            sch.compute_at(block, beside, preserve_unit_loops=True)
            _spread(sch, sch.get_loops(block)[-1], across)
        _spread(sch, column, across)
        return sch


def _length(sch: s_tir.Schedule, block: b.BlockRV) -> int | None:
    """Return the extent of a block's last loop."""
    return b.extent(sch, sch.get_loops(block)[-1])


def _spread(sch: s_tir.Schedule, loop: b.LoopRV, across: int) -> None:
    """Give neighbouring threads neighbouring elements."""
    step, thread = sch.split(loop, [None, across])
    sch.bind(thread, "threadIdx.x")
    if b.extent(sch, step) is not None:
        sch.unroll(step)
