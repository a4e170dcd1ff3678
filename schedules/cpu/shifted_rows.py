"""Convolutions on compressed rows by shifts: transpose a plane once, multiply, transpose back."""

from __future__ import annotations

import math

from tvm import s_tir, tirx
from tvm.target import Target

from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.contractions.packed_rows import VECTORS
from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.blocks import BlockRV, LoopRV
from tvm_sparse.schedules.cpu import cores, simd
from tvm_sparse.schedules.rule import ScheduleRule


class ShiftedRowsRule(ScheduleRule):
    """Keep the planes of a group's channels, and the sums of a row tile, in the second cache.

    before: pack --> contract --> turn --> store --> element-wise blocks
    after:  for group: { pack; for feature tile: { contract; turn; epilogue } }

    Threads share the groups. If there is one, they share the positions of each step.
    """

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> s_tir.Schedule | None:
        """Schedule ``func`` if it holds a block marked ``shifted_rows``."""
        sch = s_tir.Schedule(func)
        contract = b.marked(sch, ("shifted_rows",))
        if contract is None:
            return None
        vectors = int(sch.get(contract).annotations[VECTORS])
        (pack,), (turn,) = sch.get_producers(contract), sch.get_consumers(contract)
        tiles, row_tiles = (b.extent(sch, loop) for loop in sch.get_loops(contract))
        groups = b.extent(sch, sch.get_loops(pack)[0])
        weights = math.prod(int(r.extent) for r in sch.get(contract).reads[1].region)
        flops = 2.0 * weights * vectors * LANES * tiles
        blocks = b.extent(sch, sch.get_loops(turn)[1]) // row_tiles
        epilogue = b.isolate(sch, turn, keep=("pack", "contract"))
        *rows, out = sch.get_loops(epilogue)
        few = min(LANES, b.extent(sch, out))  # a single tile may have fewer features
        group, row_tile, block, lane = sch.split(out, [groups, None, blocks, few])
        sch.reorder(group, row_tile, *rows, block, lane)
        shared = cores.worthwhile(flops, target)
        if groups == 1 and shared:
            _share_planes(sch, contract, rows)
        else:
            sch.compute_at(turn, row_tile, preserve_unit_loops=True)
            sch.compute_at(contract, row_tile, preserve_unit_loops=True)
            sch.compute_at(pack, group, preserve_unit_loops=True)
            if shared:
                sch.parallel(group)
        sch.vectorize(lane)
        simd.finish(sch)
        return sch


def _share_planes(sch: s_tir.Schedule, contract: BlockRV, rows: list[LoopRV]) -> None:
    """Run each step of a single group on all threads: its positions, and ``rows`` of the output."""
    (pack,), (turn,) = sch.get_producers(contract), sch.get_consumers(contract)
    positions = (sch.get_loops(pack)[2], sch.get_loops(contract)[0], sch.get_loops(turn)[0])
    largest = max(rows, key=lambda loop: b.extent(sch, loop) or 1)
    for loop in (*positions, largest):
        sch.parallel(loop)
