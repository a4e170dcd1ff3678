"""Tiled contractions in fp32: a small tile of sums in the registers of each thread."""

from __future__ import annotations

from typing import Any

from tvm import s_tir, tirx
from tvm.target import Target

from tvm_sparse.schedules.blocks import LoopRV
from tvm_sparse.schedules.cuda import tile as tl
from tvm_sparse.schedules.cuda.tile_limits import ThreadLoad, extents, fits
from tvm_sparse.schedules.rule import ScheduleRule
from tvm_sparse.schedules.sampling import factors

VECTOR = 4
"""fp32 elements of a 16-byte access."""

SUMS = 32
"""Sums that a thread holds at most."""


def thread_shape(rows: int, features: int) -> tuple[int, int]:
    """Return threads (down, across) for a tile: four features a thread, eight rows if possible."""
    across = features // VECTOR
    per_thread = max(1, min(SUMS // VECTOR, rows * across // 128))
    per_thread = max(d for d in range(1, per_thread + 1) if rows % d == 0)
    return rows // per_thread, across


class TileScalarRule(ScheduleRule):
    """Schedule a tiled contraction of scalars.

    before: stage_x, stage_w --> contract --> store --> element-wise blocks
    after:  for block: { for step, pipelined: { stage; registers += products }; epilogue }
    """

    def feasible(self, schedule: s_tir.Schedule) -> bool:
        """Whether a thread block fits an SM, and its code is not too long."""
        _, _, _, down, across, _, k_vector, k_in, row_in, wide, lane = extents(schedule)
        sums = row_in * wide * lane
        shape = ThreadLoad(down * across, sums, sums * k_vector * k_in)
        return fits(schedule, shape, self.tile(schedule))

    @staticmethod
    def tile(schedule: s_tir.Schedule) -> tuple[int, int, int]:
        """Return the rows, features and columns of a thread block."""
        _, _, _, down, across, _, k_vector, k_in, row_in, wide, lane = extents(schedule)
        return down * row_in, across * wide * lane, k_vector * k_in

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> s_tir.Schedule | None:
        """Schedule ``func`` if it holds a block marked ``tile_scalar``."""
        parts = tl.take_apart(func, "tile_scalar")
        if parts is None:
            return None
        sch, anchor, (rows, features, columns) = parts.sch, parts.anchor, parts.tile
        row, block, feature, k = sch.get_loops(anchor)
        default = thread_shape(rows, features)
        feature, lane = sch.split(feature, [None, VECTOR])
        k, k_in = sch.split(k, [None, VECTOR])
        down = factors(sch, row, [default[0], rows // default[0]], tunable)
        across = tl.split_features(parts, feature, [default[1], 1], tunable)
        row_block, row_thread, row_in = sch.split(row, down)
        part, thread, wide = sch.split(feature, across)
        k_step, k_vector = tl.split_columns(parts, k, columns // VECTOR, tunable)
        threads = (("threadIdx.y", down[1]), ("threadIdx.x", across[1]))
        body = (k_step, k_vector, k_in, row_in, wide, lane)
        sch.reorder(row_block, block, part, row_thread, thread, *body)
        for loop, axis in zip((row_block, block, part), parts.grid, strict=True):
            sch.bind(loop, f"blockIdx.{axis}")
        for loop, (tag, _) in zip((row_thread, thread), threads, strict=True):
            sch.bind(loop, tag)
        sch.set_scope(anchor, 0, "local")
        sch.reverse_compute_at(parts.last, thread, preserve_unit_loops=True)
        unroll_vectors(sch, sch.get_loops(parts.last)[5:])
        tl.stage(parts, k_step, threads)
        tl.pipeline(parts, k_step, target, tunable)
        load_operands(parts, k_vector)
        for loop in body[1:]:
            sch.unroll(loop)
        init = sch.decompose_reduction(anchor, k_step)
        for loop in sch.get_loops(init)[5:]:
            sch.unroll(loop)
        return tl.finish(parts, target)


def load_operands(parts: tl.Parts, loop: LoopRV) -> None:
    """Load both operands of a product into registers under ``loop``."""
    sch = parts.sch
    for operand in (0, 1):
        read = sch.cache_read(parts.anchor, operand, "local")
        sch.compute_at(read, loop, preserve_unit_loops=True)
        # All axes of the tile but the block's, which has one point here.
        unroll_vectors(sch, sch.get_loops(read)[1 - len(sch.get(read).iter_vars) :])


def unroll_vectors(sch: s_tir.Schedule, loops: list[Any]) -> None:
    """Vectorise the last loop by 16 bytes where it divides, unroll the others."""
    *rest, last = loops
    outer, lane = sch.split(last, [None, VECTOR])
    sch.vectorize(lane)
    for loop in (*rest, outer):
        sch.unroll(loop)
