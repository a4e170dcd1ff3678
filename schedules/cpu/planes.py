"""Convolutions on planes: copy those of a group, multiply row tile by row tile, store."""

from __future__ import annotations

import math

from tvm import s_tir, tirx
from tvm.target import Target

from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.contractions.packed_rows import VECTORS
from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.cpu import cores, simd
from tvm_sparse.schedules.isolate import isolate
from tvm_sparse.schedules.rule import ScheduleRule

WIDEST = 64
"""Lanes of a vector operation that LLVM cuts into registers."""


class PlanesRule(ScheduleRule):
    """Keep the planes of a group's channels, and the sums of a row tile, in the second cache.

    before: pack --> contract --> store --> element-wise blocks
    after:  for group: { pack; for feature tile: { contract; epilogue } }

    Where the pixels of one image are a line of whole tiles, a loop over these is the outer one: the
    first cache holds what a tile reads and stores.
    """

    marks = ("planes",)

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> s_tir.Schedule | None:
        """Schedule ``func`` if it holds a block marked ``planes``."""
        sch = s_tir.Schedule(func)
        contract = b.marked(sch, self.marks)
        if contract is None:
            return None
        vectors = int(sch.get(contract).annotations[VECTORS])
        (pack,) = sch.get_producers(contract)
        tiles, row_tiles = (b.extent(sch, loop) for loop in sch.get_loops(contract))
        groups = b.extent(sch, sch.get_loops(pack)[0])
        weights = math.prod(int(r.extent) for r in sch.get(contract).reads[1].region)
        flops = 2.0 * weights * vectors * LANES * tiles
        epilogue = isolate(sch, contract, keep=("pack",))
        image, features, *spatial = sch.get_loops(epilogue)
        group, row_tile, feature = sch.split(features, [groups, row_tiles // groups, None])
        order, span = [row_tile, feature, image, *spatial], vectors * LANES
        if b.extent(sch, image) == len(spatial) == 1 and b.extent(sch, spatial[0]) == tiles * span:
            tile, spatial[0] = sch.split(spatial[0], [tiles, span])
            order = [tile, row_tile, feature, image, *spatial]
        sch.reorder(group, *order)
        sch.compute_at(contract, row_tile, preserve_unit_loops=True)
        sch.compute_at(pack, group, preserve_unit_loops=True)
        sch.vectorize(sch.split(spatial[-1], [None, _lanes(b.extent(sch, spatial[-1]))])[1])
        if cores.worthwhile(flops, target):
            sch.parallel(group if groups > 1 else order[0])
        simd.finish(sch)
        return sch


def _lanes(extent: int) -> int:
    """Return how many elements of a row of ``extent`` are stored together: whole vectors, or all.

    Steps that follow are twice as slow in 50 lanes as in 16.
    """
    whole = math.gcd(extent, WIDEST)
    return whole if whole >= LANES else max(b.divisors(extent, WIDEST))
