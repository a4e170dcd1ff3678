"""Contractions whose rows share columns: transpose a tile, gather for a group, multiply."""

from __future__ import annotations

from tvm import s_tir, tirx
from tvm.target import Target

from tvm_sparse.machine.registry import machine_of
from tvm_sparse.machine.vector import LANES, MOST_ACCUMULATORS
from tvm_sparse.ops.packed_rows import PACK, VECTORS
from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.cpu import cores, simd
from tvm_sparse.schedules.rule import ScheduleRule
from tvm_sparse.schedules.sampling import choose, near_and_far

ALONE = 8
"""Work, over that of other operators, from which on threads share the groups of a single tile: a
layer of 16 x 1024 to 1024 took twice as long on two threads."""


class SharedColumnsRule(ScheduleRule):
    """Keep a group's columns of a tile of output rows in cache, their sums in registers.

    before: pack --> gather --> contract --> store --> element-wise blocks
    after:  for row tile: { pack; for group: { gather; for rows: { init; for entry: unrolled
    multiply-adds; epilogue } } }
    """

    def feasible(self, schedule: s_tir.Schedule) -> bool:
        """Whether the register tile fits the registers."""
        return simd.registers(schedule, "contract") <= MOST_ACCUMULATORS

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> s_tir.Schedule | None:
        """Schedule ``func`` if it holds a block marked ``shared_columns``."""
        sch = s_tir.Schedule(func)
        contract = b.marked(sch, ("shared_columns",))
        if contract is None:
            return None
        span = LANES * int(sch.get(contract).annotations[VECTORS])
        flops = b.flops(sch, contract) * LANES
        (gather,) = sch.get_producers(contract)
        (pack,) = sch.get_producers(gather)
        epilogue = b.isolate(sch, contract, keep=(PACK, "gather"))
        b.number_rows(sch, epilogue)
        n, group, member, entry = sch.get_loops(contract)
        most = max(1, machine_of(target).accumulators // b.extent(sch, member))
        options = b.divisors(span, min(most, LANES))
        rows = choose(sch, options, max(options), tunable)
        width = b.extent(sch, n)
        tile, sub, row = sch.split(n, [None, span // rows, rows])
        far, near = near_and_far(sch, group, tunable and width != span, near=None)
        sch.reorder(*far, tile, *near, sub, entry, row, member)
        for loop in (row, member):
            sch.unroll(loop)
        sch.set_scope(contract, 0, "local")
        sch.reverse_compute_at(epilogue, sub, preserve_unit_loops=True)
        around = len(far) + len(near) + 2
        simd.vectorise_tile(sch, epilogue, around, LANES, tunable)
        sch.compute_at(gather, near[-1], preserve_unit_loops=True)
        sch.compute_at(pack, tile, preserve_unit_loops=True)
        *_, few_rows, few_columns = sch.get_loops(pack)
        sch.reorder(few_columns, few_rows)  # lines of the cache are written whole
        alone = width == span
        if flops > cores.PARALLEL_FLOPS * (ALONE if alone else 1):
            tasks = sch.fuse(*far, tile) if far else tile
            sch.parallel(near[-1] if alone else tasks)
        sch.decompose_reduction(contract, entry)
        simd.finish(sch)
        return sch
