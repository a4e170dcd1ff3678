"""Winograd convolutions on CPUs: a strip of tiles is transformed, multiplied, transformed back."""

from __future__ import annotations

import math
from typing import Any

from tvm import s_tir, tirx
from tvm.target import Target

from tvm_sparse.base.targets import threads_of
from tvm_sparse.machine.registry import machine_of
from tvm_sparse.machine.vector import LANES, MOST_ACCUMULATORS
from tvm_sparse.ops.contractions.winograd import STORE, TRANSFORM
from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.blocks import BlockRV, LoopRV
from tvm_sparse.schedules.cpu import cores, simd
from tvm_sparse.schedules.cpu.overlap_tiles import overlap
from tvm_sparse.schedules.cpu.register_tile import RegisterTile, default_tile, sampled_tile
from tvm_sparse.schedules.cpu.slide import can_slide, factors, open_axes, patch_of, slid
from tvm_sparse.schedules.isolate import isolate
from tvm_sparse.schedules.rule import ScheduleRule
from tvm_sparse.schedules.sampling import choose

OPEN_PATCH = (8, 16)
"""Rows and columns of the patches that cover a plane of open extents."""

PATCH_TILES = 32
"""Tiles of two by two of such a patch."""

WINDOW = 3
"""Rows and columns that an output depends on."""

MIN_TILES = 48
"""Tiles of a strip: weights are loaded for so many, while their inputs stay in the second cache."""


class WinogradRule(ScheduleRule):
    """Keep a strip's transformed inputs in the second cache, its products in the first.

    before: transform --> contract --> store --> element-wise blocks
    after:  for strip: { transform; for feature tile: { register tiles of products; epilogue } }
    """

    marks = ("winograd",)

    def feasible(self, schedule: s_tir.Schedule) -> bool:
        """Whether the register tile fits the registers."""
        return simd.registers(schedule, "contract") <= MOST_ACCUMULATORS

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> s_tir.Schedule | None:
        """Schedule ``func`` if it holds a block marked ``winograd``."""
        sch = s_tir.Schedule(func)
        anchor = b.marked(sch, self.marks)
        if anchor is None:
            return None
        if not open_axes(func):
            return self._scheduled(sch, anchor, target, tunable, shared=True)
        sizes = _patch(func)
        blocks = (TRANSFORM, sch.get(anchor).name_hint, STORE)
        patch = patch_of(func, sizes, WINDOW - 1) if can_slide(func, sizes, blocks) else None
        if patch is None:
            return _plainly(sch, anchor)
        inner = s_tir.Schedule(patch)
        anchor = b.marked(inner, ("winograd",))
        inner = self._scheduled(inner, anchor, target, tunable=False, shared=False)
        return slid(func, inner.mod["main"], sizes)

    @staticmethod
    def _scheduled(
        sch: s_tir.Schedule, anchor: BlockRV, target: Target, tunable: bool, *, shared: bool
    ) -> s_tir.Schedule:
        """Schedule the contraction ``anchor``; threads may share it if it is to be ``shared``."""
        flops = b.flops(sch, anchor)
        transform, epilogue = _around(sch, anchor)
        collect = sch.cache_write(anchor, 0, "local")
        image, y, x, feature = sch.get_loops(epilogue)
        high, wide = (-(-b.extent(sch, loop) // 2) for loop in (y, x))
        strip, blocks = strip_rows(high, wide), b.extent(sch, feature) // LANES
        default = default_tile(strip * wide, blocks, most=machine_of(target).accumulators)
        tile = sampled_tile(sch, strip * wide, blocks, default, tunable)
        rows = choose(sch, b.divisors(high, high), strip, tunable)
        strips, row, low = sch.split(y, [None, rows, 2])
        col, right = sch.split(x, [None, 2])
        features, vector, lane = sch.split(feature, [None, tile.vectors, LANES])
        sch.reorder(image, strips, features, row, col, low, right, vector, lane)
        _innermost(sch, [low, right, vector], lane)
        column = _multiply(sch, anchor, collect, features, tile)
        tiles = _transform(sch, transform, strips)
        if shared and cores.worthwhile(flops, target):
            _parallel(sch, [image, strips], [tiles, features], target)
        sch.decompose_reduction(anchor, column)
        simd.finish(sch, shared=shared)
        return sch


def _around(sch: s_tir.Schedule, anchor: BlockRV) -> tuple[BlockRV, BlockRV]:
    """Return what transforms the inputs of ``anchor``, and the one block left that stores."""
    epilogue = isolate(sch, anchor, keep=(TRANSFORM,))
    (transform,) = [p for p in sch.get_producers(anchor) if sch.get(p).name_hint == TRANSFORM]
    return transform, epilogue


def _patch(func: tirx.PrimFunc) -> dict[int, int]:
    """Return how much of the open axes of the output of ``func`` a patch has.

    A patch of few tiles loads weights more often than one of many, which sticks out more. One of an
    extent that is a multiple of a number is a multiple, too.
    """
    axes, shape = open_axes(func), func.params[-1].shape
    sizes = dict(zip((1, 2), OPEN_PATCH, strict=True))
    if len(axes) == 1:
        tiles = -(-int(shape[3 - axes[0]]) // 2)
        sizes = {axes[0]: OPEN_PATCH[1] * max(1, PATCH_TILES // (OPEN_PATCH[1] // 2 * tiles))}
    if len(axes) == 2 and shape[1].same_as(shape[2]):
        sizes = dict.fromkeys(axes, max(OPEN_PATCH))
    return {axis: math.lcm(size, *factors(func, shape[axis])) for axis, size in sizes.items()}


def _plainly(sch: s_tir.Schedule, anchor: BlockRV) -> s_tir.Schedule:
    """Transform all of an image, multiply, transform back: for what a patch cannot slide over."""
    for block in _around(sch, anchor):
        *_, last = sch.get_loops(block)
        sch.vectorize(sch.split(last, [None, LANES])[1])
    *_, lane, column = sch.get_loops(anchor)
    sch.reorder(column, lane)
    sch.vectorize(lane)
    sch.decompose_reduction(anchor, column)
    simd.finish(sch)
    return sch


def strip_rows(high: int, wide: int) -> int:
    """Return how many of ``high`` rows of ``wide`` tiles make a strip."""
    return next(rows for rows in b.divisors(high, high) if rows * wide >= MIN_TILES or rows == high)


def _multiply(
    sch: s_tir.Schedule, anchor: BlockRV, collect: BlockRV, features: LoopRV, tile: RegisterTile
) -> Any:
    """Multiply the tiles of a strip with the weights of a feature tile, a register tile at a time.

    ``anchor`` accumulates, ``collect`` stores what it has. Returns the loop that sums.
    """
    sch.compute_at(collect, features, preserve_unit_loops=True)
    *_, block, i, j, tiles, lane = sch.get_loops(collect)
    outer, inner = sch.split(tiles, [None, tile.rows])
    sch.reorder(i, j, outer, inner, block, lane)
    _innermost(sch, [inner, block], lane)
    sch.compute_at(anchor, outer, preserve_unit_loops=True)
    *_, block, _, _, inner, lane, column = sch.get_loops(anchor)
    sch.reorder(column, inner, block, lane)
    _innermost(sch, [inner, block], lane)
    overlap(sch, anchor, collect)
    return column


def _transform(sch: s_tir.Schedule, transform: BlockRV, strips: LoopRV) -> Any:
    """Transform the inputs of a strip; return the loop over its tiles."""
    sch.compute_at(transform, strips, preserve_unit_loops=True)
    *_, i, j, tiles, channel = sch.get_loops(transform)
    outer, lane = sch.split(channel, [None, LANES])
    sch.reorder(tiles, outer, i, j, lane)
    _innermost(sch, [i, j], lane)
    return tiles


def _innermost(sch: s_tir.Schedule, loops: list[LoopRV], lane: LoopRV) -> None:
    for loop in loops:
        sch.unroll(loop)
    sch.vectorize(lane)


def _parallel(
    sch: s_tir.Schedule, strips: list[LoopRV], within: list[LoopRV], target: Target
) -> None:
    """Run strips on all threads, or what is ``within`` one where they are too few to share."""
    threads = threads_of(target)
    count = math.prod(b.extent(sch, loop) or 1 for loop in strips)
    if count % threads == 0 or count >= cores.TASKS_A_CORE * threads:
        cores.tasks(sch, strips)
    else:
        for loop in within:
            cores.tasks(sch, [loop])
