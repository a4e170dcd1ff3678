"""Everything that is not a contraction on GPUs: element-wise chains, reductions, transposes."""

from __future__ import annotations

from tvm import s_tir, tirx
from tvm.s_tir.dlight import gpu
from tvm.target import Target

from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.blocks import BlockRV
from tvm_sparse.schedules.cuda import threads as t
from tvm_sparse.schedules.cuda.stock import StockRule
from tvm_sparse.schedules.rule import ScheduleRule


class ElementwiseRule(ScheduleRule):
    """Inline chains without a reduction; a thread handles 16 contiguous bytes of each output."""

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> s_tir.Schedule | None:
        """Schedule ``func`` unless it reduces something or its first axis is not a loop."""
        sch = s_tir.Schedule(func)
        blocks = b.all_blocks(sch)
        if any(b.is_reduction(sch, block) or not _plain(sch, block) for block in blocks):
            return None
        b.inline(sch)
        t.bind_leftovers(sch, target)
        return sch


def _plain(sch: s_tir.Schedule, block: BlockRV) -> bool:
    """Whether a block has one loop for each axis and at least one."""
    loops = sch.get_loops(block)
    return bool(loops) and len(loops) == len(sch.get(block).iter_vars)


REST: tuple[ScheduleRule, ...] = (
    ElementwiseRule(),
    StockRule(gpu.GEMV()),
    StockRule(gpu.Reduction()),
    StockRule(gpu.GeneralReduction()),
    StockRule(gpu.Fallback()),
)
"""Rules for everything else, in order. TVM's matrix rule is left out: it takes 18 s to import."""
