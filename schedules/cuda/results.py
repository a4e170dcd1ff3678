"""Short rows, and many side by side, on GPUs: pools, largest places, softmax of channels."""

from __future__ import annotations

from tvm import s_tir, tirx
from tvm.target import Target

from tvm_sparse.schedules.cuda import threads as t
from tvm_sparse.schedules.cuda.reduced_rows import UNROLLED, take_apart
from tvm_sparse.schedules.rule import ScheduleRule

SHORT, MOST = 64, 4096
"""Elements of a row that one thread reduces, whatever lies side by side, and if rows do."""

ROWS = 4096
"""Rows that keep a GPU busy with a thread each."""


class ResultsRule(ScheduleRule):
    """Schedule short rows, and many that lie side by side: a thread has a row of its own.

    before: sums of windows --> means --> element-wise blocks
    after:  for windows, on threads: { sum; the rest }
    """

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> s_tir.Schedule | None:
        """Schedule ``func`` if its rows are short, or many and side by side."""
        parts = take_apart(func)
        if parts is None or not parts.length or not parts.outer:
            return None
        sch = parts.sch
        beside = any(parts.side_by_side(block) for block in parts.totals)
        few = parts.count is not None and parts.count < ROWS
        if parts.length > (SHORT if beside or few else MOST):
            return None
        grid, thread = sch.split(parts.numbered(), [None, t.DEFAULT_THREADS])
        sch.bind(grid, "blockIdx.x")
        sch.bind(thread, "threadIdx.x")
        for block in reversed(parts.totals):
            for place in range(len(sch.get(block).writes)):
                sch.set_scope(block, place, "local")
            sch.compute_at(block, thread, preserve_unit_loops=True)
            for loop in parts.reduced(block) if parts.length <= UNROLLED else ():
                sch.unroll(loop)
        return sch
