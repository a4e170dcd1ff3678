"""Convolutions on compressed rows by shifts: transpose a plane once, multiply, transpose back."""

from __future__ import annotations

import math

from tvm import s_tir, tirx
from tvm.target import Target

from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.contractions.shifted_rows import STRIPS
from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.blocks import BlockRV, LoopRV
from tvm_sparse.schedules.cpu import cores, simd
from tvm_sparse.schedules.isolate import isolate
from tvm_sparse.schedules.rule import ScheduleRule


class ShiftedRowsRule(ScheduleRule):
    """Keep the planes of a group's channels, and the sums of a row tile, in the second cache.

    before: pack --> contract --> turn --> store --> element-wise blocks
    after:  for group: { pack; for feature tile: { contract; turn; epilogue } }

    Threads share the groups. If there is one, they share the positions of each step. Parts that
    are packed one by one have loops of their own outside.
    """

    marks = ("shifted_rows",)

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> s_tir.Schedule | None:
        """Schedule ``func`` if it holds a block marked ``shifted_rows``."""
        sch = s_tir.Schedule(func)
        contract = b.marked(sch, self.marks)
        if contract is None:
            return None
        (pack,), (turn,) = sch.get_producers(contract), sch.get_consumers(contract)
        *parts, by_group, _, _, _ = sch.get_loops(pack)
        strips = [int(n) for n in sch.get(pack).annotations.get(STRIPS, ())]
        row_tiles, groups = (b.extent(sch, x) for x in (sch.get_loops(contract)[1], by_group))
        weights = math.prod(int(r.extent) for r in sch.get(contract).reads[1].region)
        positions = int(sch.get(contract).reads[0].region[-1].extent)
        blocks = b.extent(sch, sch.get_loops(turn)[1]) // row_tiles
        epilogue = isolate(sch, turn, keep=("pack", "contract"))
        *rows, out = sch.get_loops(epilogue)
        parts, rows = _parts(sch, rows, len(parts), strips)
        few = min(LANES, b.extent(sch, out))  # a single tile may have fewer features
        group, row_tile, block, lane = sch.split(out, [groups, None, blocks, few])
        sch.reorder(*parts, group, row_tile, *rows, block, lane)
        shared = cores.worthwhile(2.0 * weights * positions, target)
        if groups == 1 and shared:
            _share_planes(sch, contract, parts, rows)
        else:
            sch.compute_at(turn, row_tile, preserve_unit_loops=True)
            sch.compute_at(contract, row_tile, preserve_unit_loops=True)
            sch.compute_at(pack, group, preserve_unit_loops=True)
            if shared:
                cores.tasks(sch, [*parts, group])
        sch.vectorize(lane)
        simd.finish(sch)
        return sch


def _parts(
    sch: s_tir.Schedule, rows: list[LoopRV], count: int, strips: list[int]
) -> tuple[list[LoopRV], list[LoopRV]]:
    """Return the loops over parts, and those over the outputs of one."""
    if not strips:
        return rows[:count], rows[count:]
    axis, lines = strips
    part, rows[axis] = sch.split(rows[axis], [None, lines])
    return [part], rows


def _share_planes(
    sch: s_tir.Schedule, contract: BlockRV, parts: list[LoopRV], rows: list[LoopRV]
) -> None:
    """Run each step of a single group on all threads: its positions, and ``rows`` of the output."""
    (pack,), (turn,) = sch.get_producers(contract), sch.get_consumers(contract)
    largest = max(rows, key=lambda loop: b.extent(sch, loop) or 1)
    if parts:
        for block in (turn, contract, pack):
            sch.compute_at(block, parts[-1], preserve_unit_loops=True)
    for loop in (*(sch.get_loops(block)[-2] for block in (pack, contract, turn)), largest):
        sch.parallel(loop)
