"""Contractions whose rows share columns: transpose a tile, gather for a group, multiply."""

from __future__ import annotations

from tvm import s_tir, tirx
from tvm.target import Target

from tvm_sparse.machine.registry import machine_of
from tvm_sparse.machine.vector import LANES, MOST_ACCUMULATORS
from tvm_sparse.ops.contractions.packed_rows import PACK
from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.cpu import cores, simd
from tvm_sparse.schedules.isolate import isolate
from tvm_sparse.schedules.rule import ScheduleRule
from tvm_sparse.schedules.sampling import choose, near_and_far

ALONE = 8
"""Work, over that of other operators, from which on threads share the groups of a single tile: a
layer of 16 x 1024 to 1024 took twice as long on two threads."""


class SharedColumnsRule(ScheduleRule):
    """Keep a tile of output rows in cache, its sums of 16 features in registers.

    before: pack --> gather --> contract --> turn --> store --> element-wise blocks
    after:  for row tile: { pack; for 16 features: { init; for entry: { gather; unrolled
    multiply-adds }; turn; epilogue } }

    Where fewer sums fit the registers, what is gathered waits in cache for all of a group.
    """

    marks = ("shared_columns",)

    version = 2

    def feasible(self, schedule: s_tir.Schedule) -> bool:
        """Whether the register tile fits the registers."""
        return simd.registers(schedule, "contract") <= MOST_ACCUMULATORS

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> s_tir.Schedule | None:
        """Schedule ``func`` if it holds a block marked ``shared_columns``."""
        sch = s_tir.Schedule(func)
        contract = b.marked(sch, self.marks)
        if contract is None:
            return None
        flops = b.flops(sch, contract) * LANES
        (gather,), (turn,) = sch.get_producers(contract), sch.get_consumers(contract)
        (pack,) = sch.get_producers(gather)
        epilogue = isolate(sch, turn, keep=(PACK, "gather", "contract"))
        b.number_rows(sch, epilogue)
        tile, group, feature, entry = sch.get_loops(contract)
        alone = b.extent(sch, tile) == 1
        options = b.divisors(LANES, min(machine_of(target).accumulators, LANES))
        few = choose(sch, options, max(options), tunable)
        member, part, some = sch.split(feature, [None, LANES // few, few])
        far, near = near_and_far(sch, group, tunable and not alone, near=None)
        sch.reorder(*far, tile, *near, member, part, entry, some)
        sch.unroll(some)
        sch.reverse_compute_at(turn, member, preserve_unit_loops=True)
        sch.reverse_compute_at(epilogue, member, preserve_unit_loops=True)
        simd.vectorise_tile(sch, epilogue, len(far) + len(near) + 2, LANES, tunable)
        inside = max(options) == LANES
        sch.compute_at(gather, entry if inside else near[-1], preserve_unit_loops=True)
        sch.compute_at(pack, tile, preserve_unit_loops=True)
        if cores.worthwhile(flops / (ALONE if alone else 1), target):
            tasks = sch.fuse(*far, tile) if far else tile
            sch.parallel(near[-1] if alone else tasks)
        sch.decompose_reduction(contract, entry)
        simd.finish(sch)
        return sch
