"""Contractions on compressed rows: transpose a tile of activations, multiply, transpose back."""

from __future__ import annotations

import math
from typing import Any

from tvm import s_tir, tirx
from tvm.target import Target

from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.contractions.packed_rows import VECTORS
from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.blocks import LoopRV
from tvm_sparse.schedules.cpu import cores, simd
from tvm_sparse.schedules.isolate import isolate
from tvm_sparse.schedules.rule import ScheduleRule
from tvm_sparse.schedules.sampling import choose, near_and_far


class CompressedRowsRule(ScheduleRule):
    """Keep a tile of output rows in cache from its first transposition to its epilogue.

    before: pack --> contract --> turn --> store --> element-wise blocks
    after:  for row tile: { pack; for feature tile: { contract; for 16 x 16: turn, epilogue } }

    Tunable, feature tiles may come in groups, for each of which a row tile is packed again: more
    tasks for threads, fewer weights at a time.
    """

    marks = ("compressed_rows",)

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> s_tir.Schedule | None:
        """Schedule ``func`` if it holds a block marked ``compressed_rows``."""
        sch = s_tir.Schedule(func)
        contract = b.marked(sch, self.marks)
        if contract is None:
            return None
        vectors = int(sch.get(contract).annotations[VECTORS])
        (pack,), (turn,) = sch.get_producers(contract), sch.get_consumers(contract)
        tiles, row_tiles = (b.extent(sch, loop) for loop in sch.get_loops(contract))
        weights = math.prod(int(r.extent) for r in sch.get(contract).reads[1].region)
        flops = 2.0 * weights * vectors * LANES * (tiles or 1)
        features = b.extent(sch, sch.get_loops(turn)[1]) * LANES // row_tiles
        epilogue = isolate(sch, turn, keep=("pack", "contract"))
        b.number_rows(sch, epilogue)
        rows, out = sch.get_loops(epilogue)
        partial = b.extent(sch, rows) != (tiles or 0) * vectors * LANES
        tile, vector, row = sch.split(rows, [None, vectors, LANES])
        row_tile, block, lane = sch.split(out, [None, features // LANES, LANES])
        # A partial tile cannot be fused into a parallel loop; a single tile is packed once for all.
        open_tiles = tunable and not partial and tiles != 1
        far, near = near_and_far(sch, row_tile, open_tiles, near=None)
        row_out, row_in = _unrolled(sch, row, tunable)
        sch.reorder(*far, tile, *near, block, vector, *row_out, row_in, lane)
        if partial:
            sch.annotate(tile, "pragma_loop_partition_hint", True)
        sch.compute_at(turn, vector, preserve_unit_loops=True)
        sch.compute_at(contract, near[-1], preserve_unit_loops=True)
        sch.compute_at(pack, tile, preserve_unit_loops=True)
        sch.vectorize(lane)
        sch.unroll(row_in)
        if cores.worthwhile(flops, target):
            tasks = sch.fuse(*far, tile) if far else tile
            sch.parallel(near[-1] if tiles == 1 else tasks)
        simd.finish(sch)
        return sch


def _unrolled(sch: s_tir.Schedule, rows: LoopRV, tunable: bool) -> tuple[list[Any], Any]:
    """Split the rows of a transposed square in those that stay a loop and those to unroll (all)."""
    if not tunable:
        return [], rows
    out, inner = sch.split(rows, [None, choose(sch, b.divisors(LANES, LANES), LANES, tunable)])
    return [out], inner
