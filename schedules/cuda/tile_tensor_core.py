"""Tiled contractions on tensor cores: copies run ahead of the products in a pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import s_tir, tirx
from tvm.target import Target

from tvm_sparse.ops.cuda.multiply import EDGE
from tvm_sparse.schedules.cuda import threads as t
from tvm_sparse.schedules.cuda import tile as tl
from tvm_sparse.schedules.rule import ScheduleRule

FRAGMENTS = ("load_a", "load_b", "unfold")
WARP_ROWS, WARP_FEATURES = 64, 32
"""Largest part of the tile that one warp multiplies: 64 sums a lane."""


@dataclass(frozen=True)
class Warps:
    """Warps of a thread block along rows and features."""

    rows: int
    features: int

    @property
    def threads(self) -> t.Threads:
        """Thread axes; two axes for warps, so that no product of decisions is needed."""
        return (
            ("threadIdx.z", self.features),
            ("threadIdx.y", self.rows),
            ("threadIdx.x", t.WARP),
        )


def default_warps(rows: int, features: int) -> Warps:
    """Return at least four warps where the tile has enough 16 x 16 tiles, at most 64 x 32 each."""
    down, across = max(1, rows // WARP_ROWS), max(1, features // WARP_FEATURES)
    while down * across < 4:
        if features // across > EDGE and (features // across) % (2 * EDGE) == 0:
            across *= 2
        elif rows // down > EDGE and (rows // down) % (2 * EDGE) == 0:
            down *= 2
        else:
            break
    return Warps(down, across)


class TileTensorCore(ScheduleRule):
    """Schedule a tiled contraction of 16 x 16 tensor-core tiles.

    before: stage_x, stage_w --> load_a, load_b --> contract --> unfold --> store --> ...
    after:  for block: { for step, pipelined: { stage; for 16 columns: load, multiply }; epilogue }

    ``asynchronous`` copies are ``cp.async``, which other languages than CUDA do not have.
    """

    def __init__(self, *, asynchronous: bool = True) -> None:
        self.asynchronous = asynchronous

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> s_tir.Schedule | None:
        """Schedule ``func`` if it holds a block marked ``tile_tensor_core``."""
        parts = tl.take_apart(func, "tile_tensor_core", own=FRAGMENTS)
        if parts is None:
            return None
        sch, anchor, (rows, features, columns) = parts.sch, parts.anchor, parts.tile
        warps = default_warps(rows, features)
        row, block, feature, lane, k = sch.get_loops(anchor)
        row_block, row_warp, row_in = sch.split(row, [None, warps.rows, rows // EDGE // warps.rows])
        warp, inner = sch.split(feature, [warps.features, None])
        k_step, k_in = sch.split(k, [None, columns // EDGE])
        sch.reorder(row_block, block, warp, row_warp, lane, k_step, k_in, row_in, inner)
        sch.bind(row_block, "blockIdx.x")
        sch.bind(block, "blockIdx.y")
        for loop, (tag, _) in zip((warp, row_warp, lane), warps.threads, strict=True):
            sch.bind(loop, tag)
        self._epilogue(parts, block, lane, warps)
        for name in FRAGMENTS[:2]:
            fragment = sch.get_sblock(name)
            sch.set_scope(fragment, 0, "local")
            sch.compute_at(fragment, k_in, preserve_unit_loops=True)
            for loop in sch.get_loops(fragment)[-5:]:
                sch.unroll(loop)
        sch.set_scope(anchor, 0, "local")
        tl.stage(parts, k_step, warps.threads)
        tl.pipeline(parts, k_step, target, asynchronous=self.asynchronous)
        for loop in (k_in, row_in, inner):
            sch.unroll(loop)
        init = sch.decompose_reduction(anchor, k_step)
        for loop in sch.get_loops(init)[5:]:
            sch.unroll(loop)
        return tl.finish(parts, target)

    @staticmethod
    def _epilogue(parts: tl.Parts, block: Any, lane: Any, warps: Warps) -> None:
        """Take the sums through shared memory, so that the epilogue sees whole rows."""
        sch = parts.sch
        unfold = sch.get_sblock("unfold")
        sch.set_scope(unfold, 0, tl.staged(parts).scope())
        sch.reverse_compute_at(unfold, lane, preserve_unit_loops=True)
        *rest, pair = sch.get_loops(unfold)[5:]
        sch.vectorize(pair)
        for loop in rest:
            sch.unroll(loop)
        sch.storage_align(unfold, 0, axis=-2, factor=32, offset=8)
        sch.reverse_compute_at(parts.last, block, preserve_unit_loops=True)
        tl.store_tile(parts, warps.threads)
