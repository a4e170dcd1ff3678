"""Tiled contractions in fp32: a small tile of sums in the registers of each thread."""

from __future__ import annotations

from typing import Any

from tvm import s_tir, tirx
from tvm.target import Target

from tvm_sparse.schedules.cuda import tile as tl
from tvm_sparse.schedules.rule import ScheduleRule

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


class TileScalar(ScheduleRule):
    """Schedule a tiled contraction of scalars.

    before: stage_x, stage_w --> contract --> store --> element-wise blocks
    after:  for block: { for step, pipelined: { stage; registers += products }; epilogue }

    ``asynchronous`` copies are ``cp.async``, which other languages than CUDA do not have.
    """

    def __init__(self, *, asynchronous: bool = True) -> None:
        self.asynchronous = asynchronous

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> s_tir.Schedule | None:
        """Schedule ``func`` if it holds a block marked ``tile_scalar``."""
        parts = tl.take_apart(func, "tile_scalar")
        if parts is None:
            return None
        sch, anchor, (rows, features, columns) = parts.sch, parts.anchor, parts.tile
        row, feature, k = sch.get_loops(anchor)
        block, inner = sch.split(feature, [None, features])
        down, across = thread_shape(rows, features)
        row_block, row_thread, row_in = sch.split(row, [None, down, rows // down])
        thread, lane = sch.split(inner, [across, VECTOR])
        k_step, k_vector, k_in = sch.split(k, [None, columns // VECTOR, VECTOR])
        threads = (("threadIdx.y", down), ("threadIdx.x", across))
        sch.reorder(row_block, block, row_thread, thread, k_step, k_vector, k_in, row_in, lane)
        for loop, tag in ((row_block, "blockIdx.x"), (block, "blockIdx.y")):
            sch.bind(loop, tag)
        for loop, (tag, _) in zip((row_thread, thread), threads, strict=True):
            sch.bind(loop, tag)
        sch.set_scope(anchor, 0, "local")
        sch.reverse_compute_at(parts.last, thread, preserve_unit_loops=True)
        _unroll(sch, sch.get_loops(parts.last)[4:])
        tl.stage(parts, k_step, threads)
        tl.pipeline(parts, k_step, target, asynchronous=self.asynchronous)
        for operand in (0, 1):
            read = sch.cache_read(anchor, operand, "local")
            sch.compute_at(read, k_vector, preserve_unit_loops=True)
            _unroll(sch, sch.get_loops(read)[-2:])
        for loop in (k_vector, k_in, row_in, lane):
            sch.unroll(loop)
        init = sch.decompose_reduction(anchor, k_step)
        for loop in sch.get_loops(init)[4:]:
            sch.unroll(loop)
        return tl.finish(parts, target)


def _unroll(sch: s_tir.Schedule, loops: list[Any]) -> None:
    """Vectorise the last loop by 16 bytes where it divides, unroll the others."""
    *rest, last = loops
    outer, lane = sch.split(last, [None, VECTOR])
    sch.vectorize(lane)
    for loop in (*rest, outer):
        sch.unroll(loop)
