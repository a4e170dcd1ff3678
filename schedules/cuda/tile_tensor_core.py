"""Tiled contractions on tensor cores: copies run ahead of the products in a pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import s_tir, tirx
from tvm.target import Target

from tvm_sparse.ops.cuda.multiply import EDGE, ROW_BYTES
from tvm_sparse.schedules.blocks import BlockRV, LoopRV
from tvm_sparse.schedules.cuda import threads as t
from tvm_sparse.schedules.cuda import tile as tl
from tvm_sparse.schedules.cuda.tile_limits import ThreadLoad, extents, fits
from tvm_sparse.schedules.rule import ScheduleRule
from tvm_sparse.schedules.sampling import factors

FRAGMENTS = ("load_a", "load_b", "unfold")
UNROLL = 16
"""What a 16 x 16 x 16 product takes in a program, compared with a scalar one."""

WARP_ROWS, WARP_FEATURES = 64, 32
"""Largest part of the tile that one warp multiplies: 64 sums a lane."""


@dataclass(frozen=True)
class Warps:
    """Warps of a thread block along rows and features (numbers or schedule variables)."""

    rows: Any
    features: Any

    @property
    def threads(self) -> t.Threads:
        """Thread axes; two axes for warps, so that no product of decisions is needed."""
        return (
            ("threadIdx.z", self.features),
            ("threadIdx.y", self.rows),
            ("threadIdx.x", t.WARP),
        )


def default_warps(rows: int, features: int, edges: tuple[int, int] = (EDGE, EDGE)) -> Warps:
    """Return at least four warps where the tile has enough small ones, at most 64 x 32 each.

    ``edges`` are the rows and features of a small tile.
    """
    down, across = max(1, rows // WARP_ROWS), max(1, features // WARP_FEATURES)
    while down * across < 4:
        if features // across > edges[1] and (features // across) % (2 * edges[1]) == 0:
            across *= 2
        elif rows // down > edges[0] and (rows // down) % (2 * edges[0]) == 0:
            down *= 2
        else:
            break
    return Warps(down, across)


class TileTensorCoreRule(ScheduleRule):
    """Schedule a tiled contraction of 16 x 16 tensor-core tiles.

    before: stage_x, stage_w --> load_a, load_b --> contract --> unfold --> store --> ...
    after:  for block: { for step, pipelined: { stage; for 16 columns: load, multiply }; epilogue }
    """

    operator = "tile_tensor_core"
    edges = (EDGE, EDGE, EDGE)
    """Rows, features and columns of a product of one warp."""

    pairs = True
    """Whether two neighbouring registers of a sum are neighbouring features."""

    def feasible(self, schedule: s_tir.Schedule) -> bool:
        """Whether a thread block fits an SM, and its code is not too long."""
        _, _, _, across, down, lanes, _, k_in, row_in, inner = extents(schedule)
        products = row_in * inner
        sums = self.edges[0] * self.edges[1] // t.WARP * products
        shape = ThreadLoad(across * down * lanes, sums, UNROLL * products * k_in)
        return fits(schedule, shape, self.tile(schedule))

    def tile(self, schedule: s_tir.Schedule) -> tuple[int, int, int]:
        """Return the rows, features and columns of a thread block."""
        _, _, _, across, down, _, _, k_in, row_in, inner = extents(schedule)
        rows, features, columns = self.edges
        return rows * down * row_in, features * across * inner, columns * k_in

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> s_tir.Schedule | None:
        """Schedule ``func`` if it holds a block marked :attr:`operator`."""
        parts = tl.take_apart(func, self.operator, own=FRAGMENTS)
        if parts is None:
            return None
        sch, anchor, (rows, features, columns) = parts.sch, parts.anchor, parts.tile
        small = self.edges
        warps = default_warps(rows, features, small[:2])
        row, block, feature, lane, k = sch.get_loops(anchor)
        down = factors(sch, row, [warps.rows, rows // small[0] // warps.rows], tunable)
        inner = [warps.features, features // small[1] // warps.features]
        across = tl.split_features(parts, feature, inner, tunable)
        warps = Warps(down[1], across[1])
        row_block, row_warp, row_in = sch.split(row, down)
        part, warp, feature_in = sch.split(feature, across)
        k_step, k_in = tl.split_columns(parts, k, columns // small[2], tunable)
        sch.reorder(row_block, block, part, warp, row_warp, lane, k_step, k_in, row_in, feature_in)
        for loop, axis in zip((row_block, block, part), parts.grid, strict=True):
            sch.bind(loop, f"blockIdx.{axis}")
        for loop, (tag, _) in zip((warp, row_warp, lane), warps.threads, strict=True):
            sch.bind(loop, tag)
        through_shared(parts, part, lane, warps.threads, pairs=self.pairs)
        load_fragments(sch, k_in)
        sch.set_scope(anchor, 0, "local")
        tl.stage(parts, k_step, warps.threads)
        tl.pipeline(parts, k_step, target, tunable)
        for loop in (k_in, row_in, feature_in):
            sch.unroll(loop)
        init = sch.decompose_reduction(anchor, k_step)
        for loop in sch.get_loops(init)[6:]:
            sch.unroll(loop)
        return tl.finish(parts, target)


class TileBytesRule(TileTensorCoreRule):
    """Schedule a tiled contraction of bytes, whose products are twice as long."""

    operator = "tile_bytes"
    edges = (EDGE, EDGE, ROW_BYTES)


def through_shared(
    parts: tl.Parts, block: BlockRV, lane: LoopRV, threads: t.Threads, *, pairs: bool = True
) -> None:
    """Take the sums through shared memory, so that the epilogue sees whole rows.

    ``block`` is the loop of a thread block's tile, ``lane`` that of its threads.
    """
    sch = parts.sch
    unfold = sch.get_sblock(FRAGMENTS[2])
    sch.set_scope(unfold, 0, tl.staged(parts).scope())
    sch.reverse_compute_at(unfold, lane, preserve_unit_loops=True)
    *rest, pair = sch.get_loops(unfold)[-6:]
    if pairs:
        sch.vectorize(pair)
    for loop in rest if pairs else (*rest, pair):
        sch.unroll(loop)
    sch.storage_align(unfold, 0, axis=-2, factor=32, offset=8)
    sch.reverse_compute_at(parts.last, block, preserve_unit_loops=True)
    tl.store_tile(parts, threads)


def load_fragments(sch: s_tir.Schedule, loop: LoopRV) -> None:
    """Load both operands of a product into registers under ``loop``."""
    for name in FRAGMENTS[:2]:
        fragment = sch.get_sblock(name)
        sch.set_scope(fragment, 0, "local")
        sch.compute_at(fragment, loop, preserve_unit_loops=True)
        for inner in sch.get_loops(fragment)[-5:]:
            sch.unroll(inner)
