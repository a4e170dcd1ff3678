"""Blocks on Hopper's tensor cores: one function multiplies, the epilogue follows as everywhere."""

from __future__ import annotations

from tvm import s_tir, tirx
from tvm.target import Target

from tvm_sparse.ops.cuda.wgmma import WGMMA
from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.cuda import tile as tl
from tvm_sparse.schedules.rule import ScheduleRule


class TileWgmmaRule(ScheduleRule):
    """Schedule blocks that a function of CUDA C multiplies.

    before: contract --> store --> ...
    after:  for block: { contract, into shared memory; epilogue }
    """

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> s_tir.Schedule | None:
        """Schedule ``func`` if it holds a block marked so; nothing of it is tuned."""
        del tunable
        parts = tl.take_apart(func, WGMMA)
        if parts is None:
            return None
        sch = parts.sch
        row, block, thread = sch.get_loops(parts.anchor)
        threads = (("threadIdx.x", b.extent(sch, thread)),)
        sch.bind(row, "blockIdx.x")
        sch.bind(block, "blockIdx.y")
        sch.bind(thread, "threadIdx.x")
        sch.storage_align(parts.anchor, 0, axis=-2, factor=32, offset=8)
        sch.reverse_compute_at(parts.last, block, preserve_unit_loops=True)
        tl.store_tile(parts, threads)
        return tl.finish(parts, target)
