"""Weight streams on GPUs: a warp holds the sums of its rows, and adds up its lanes at the end."""

from __future__ import annotations

import math
from typing import Any

from tvm import s_tir, tirx
from tvm.target import Target

from tvm_sparse.ops.cuda.parts import PARTIAL, TOTAL
from tvm_sparse.ops.marks import TILE, VECTOR
from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.blocks import BlockRV, LoopRV
from tvm_sparse.schedules.cuda import threads as t
from tvm_sparse.schedules.cuda.parts import add_parts
from tvm_sparse.schedules.cuda.tile_limits import (
    LIMIT,
    MOST_SUMS,
    MOST_THREADS,
    MOST_UNROLLED,
)
from tvm_sparse.schedules.isolate import isolate
from tvm_sparse.schedules.rule import ScheduleRule
from tvm_sparse.schedules.sampling import factors

OWN = ("load_x", "stage_x", "stage_w", "stage_i", "gather", "contract", "total", PARTIAL, TOTAL)
AHEAD = 256
"""Bytes of weights that a thread requests at once, at most."""


class StreamRule(ScheduleRule):
    """Schedule a weight stream.

    before: stage_x, gather --> contract --> total --> store --> element-wise blocks
    after:  for block: { stage_x; for warp, lane: { for chunk: load, gather, multiply; total };
    epilogue }
    """

    marks = ("stream",)

    def feasible(self, schedule: s_tir.Schedule) -> bool:
        """Whether a thread block fits an SM, and what a thread holds fits its registers."""
        total = schedule.get(schedule.get_sblock("total"))
        loops = schedule.get_loops(schedule.get_sblock("contract_update"))
        grid, warps, lanes, _, step, at_once, own, j, row = (b.extent(schedule, x) for x in loops)
        held = at_once * own * j * t.item_bytes(schedule, schedule.get_sblock("stage_w"))
        buffers = schedule.get(schedule.get_sblock("root")).alloc_buffers
        shared = [x for x in buffers if x.scope() == "shared.dyn"]
        # Of all parts of the reduction, a thread block stages one, unless it has rows of two.
        staged = sum(_bytes(x) // int(x.shape[0]) for x in shared)
        return (
            all(grid % int(x.shape[0]) == 0 for x in shared)
            and warps * lanes <= MOST_THREADS
            and held <= 4 * AHEAD
            and own * row <= MOST_SUMS // 2
            and warps * lanes * own * row <= t.REGISTERS // 4
            and step * at_once * own * j * row <= MOST_UNROLLED
            and staged + warps * own * row * 4 <= int(total.annotations[LIMIT])
        )

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> s_tir.Schedule | None:
        """Schedule ``func`` if it holds a block marked ``stream``."""
        sch = s_tir.Schedule(func)
        total = b.marked(sch, self.marks)
        if total is None:
            return None
        warps, rows = (int(e) for e in sch.get(total).annotations[TILE])
        held = rows * t.item_bytes(sch, sch.get_sblock("stage_w"))
        last = isolate(sch, total, keep=OWN)
        t.flatten_rows(sch, last)
        weight, row, lane = sch.get_loops(total)
        _, warps, rows = parts = factors(sch, weight, [warps, rows], tunable)
        grid, warp, own = sch.split(weight, parts)
        sch.bind(grid, "blockIdx.x")
        sch.bind(warp, "threadIdx.y")
        sch.bind(lane, "threadIdx.x")
        # Explicit unrolling would tear the lanes' reduction apart.
        for loop in (own, row):
            sch.annotate(loop, "pragma_auto_unroll_max_step", 64)
            sch.annotate(loop, "pragma_unroll_explicit", 0)
        threads = (("threadIdx.y", warps), ("threadIdx.x", t.WARP))
        sch.set_scope(total, 0, "shared")
        sch.reverse_compute_at(last, grid, preserve_unit_loops=True)
        sch.unroll(t.spread(sch, sch.get_loops(last)[-2:], threads, 1))
        self._sums(sch, warp, held, tunable)
        if _has(sch, "gather"):
            self._stage(sch, grid, threads)
        if tunable:
            sch.annotate(total, LIMIT, int(target.attrs["max_shared_memory_per_block"]))
        add_parts(sch)
        t.bind_leftovers(sch, target)
        return sch

    @staticmethod
    def _sums(sch: s_tir.Schedule, warp: LoopRV, held: int, tunable: bool) -> None:
        """Compute the sums of a warp's rows in registers.

        ``held`` are the bytes of one value of each of a warp's rows.
        """
        contract = sch.get_sblock("contract")
        sch.set_scope(contract, 0, "local")
        sch.compute_at(contract, warp, preserve_unit_loops=True)
        own, lane, row, chunk, step, j = sch.get_loops(contract)[-6:]
        steps = b.extent(sch, step)
        near = steps if held * steps * b.extent(sch, j) <= AHEAD else 1
        step, at_once = sch.split(step, factors(sch, step, [near], tunable))
        sch.reorder(lane, chunk, step, at_once, own, j, row)
        sch.bind(lane, "threadIdx.x")
        if _has(sch, "gather"):
            _registers(sch, "gather", j)
            _registers(sch, "stage_i", chunk)
        else:
            _registers(sch, "stage_x", at_once)
        _registers(sch, "stage_w", step)
        for loop in (step, at_once, own, j, row):
            sch.unroll(loop)
        init = sch.decompose_reduction(contract, chunk)
        for loop in sch.get_loops(init)[-2:]:
            sch.unroll(loop)

    @staticmethod
    def _stage(sch: s_tir.Schedule, grid: Any, threads: t.Threads) -> None:
        """Lay out the activations in shared memory: wide loads along columns."""
        block = sch.get_sblock("stage_x")
        sch.compute_at(block, grid, preserve_unit_loops=True)
        turn, lane, e, row = sch.get_loops(block)[-4:]
        load = sch.get_sblock("load_x")
        wide = t.vector_width(sch, load, b.extent(sch, e))
        outer, inner = sch.split(e, [None, wide])
        sch.reorder(turn, outer, lane, inner, row)
        # Before the warps are split off: warps without a share must not write either.
        written = sch.cache_write(block, 0, "local")
        sch.reverse_compute_at(written, inner, preserve_unit_loops=True)
        _, warp = sch.split(sch.fuse(turn, outer), [None, threads[0][1]])
        sch.bind(warp, threads[0][0])
        sch.bind(lane, threads[1][0])
        sch.set_scope(load, 0, "local")
        sch.compute_at(load, lane, preserve_unit_loops=True)
        # One condition serves a vector: wider ones would be loaded element by element.
        _vectorise(sch, load, int(sch.get(load).annotations[VECTOR]))
        _vectorise(sch, written)
        sch.unroll(inner)
        sch.unroll(row)


def _bytes(buffer: Any) -> int:
    """Return the size of a buffer of static shape."""
    return math.prod(int(e) for e in buffer.shape) * int(buffer.dtype.bits) // 8


def _has(sch: s_tir.Schedule, name: str) -> bool:
    return any(sch.get(block).name_hint == name for block in b.all_blocks(sch))


def _registers(sch: s_tir.Schedule, name: str, loop: LoopRV) -> None:
    """Let a block read what the iterations of ``loop`` need into registers, in wide pieces."""
    block = sch.get_sblock(name)
    sch.set_scope(block, 0, "local")
    sch.compute_at(block, loop, preserve_unit_loops=True)
    _vectorise(sch, block)


def _vectorise(sch: s_tir.Schedule, block: BlockRV, contiguous: int = 0) -> None:
    """Vectorise the last loop of ``block`` by at most 16 bytes, unroll its other ones.

    ``contiguous`` neighbours are in one place, all of the loop if nothing is said.
    """
    *rest, last = sch.get_loops(block)[-len(sch.get(block).iter_vars) :]
    wide = math.gcd(contiguous, b.extent(sch, last))
    outer, lane = sch.split(last, [None, t.vector_width(sch, block, wide)])
    sch.vectorize(lane)
    for loop in (*rest, outer):
        sch.unroll(loop)
