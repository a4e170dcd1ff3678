"""Register-tiled contractions on CPUs: dense and balanced, with whatever epilogue was fused."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm import s_tir, tirx
from tvm.target import Target

from tvm_sparse.ops.batch_matmul import PACK
from tvm_sparse.ops.marks import KIND, ROWS
from tvm_sparse.schedules.cpu import blocks as b
from tvm_sparse.schedules.cpu.registers import accumulators
from tvm_sparse.schedules.rule import ScheduleRule
from tvm_sparse.schedules.sampling import choose, near_and_far

ACCUMULATORS = 16
"""Vector accumulators of a register tile with AVX-512."""

LANES = 16

MAX_ROWS = 14
MAX_VECTORS = 8
"""Largest extents of a register tile."""

MAX_STEPS = 16
"""Most lookups of one lane vector in a row without a loop."""


@dataclass(frozen=True)
class Tile:
    """Rows and vectors of lanes that one register tile spans (numbers or schedule variables)."""

    rows: Any
    vectors: Any


def default_tile(
    rows: int | None, row_blocks: int, share: int = 1, most: int = ACCUMULATORS
) -> Tile:
    """Choose the tile that does the most multiply-adds for each load.

    ``rows`` is the extent of the tiled axis (``None`` if symbolic), ``row_blocks`` the number of
    lane vectors of the output, ``most`` the accumulators that registers hold. Without a good
    divisor the last tile is partial.
    """
    extent, most = rows or 1, max(most, share)
    tiles = [
        Tile(r, v)
        for r in b.divisors(extent, MAX_ROWS)
        for v in b.divisors(row_blocks, MAX_VECTORS)
        if r * v * share <= most
    ]
    tile = max(tiles, key=lambda t: (_reuse(t, share), -abs(t.rows - t.vectors * share)))
    if tile.rows * tile.vectors * share * 2 > most or extent < 4:
        return tile
    vectors = max(v for v in b.divisors(row_blocks, 4) if v * share <= most)
    return Tile(min(extent, most // (vectors * share)), vectors)


def _reuse(tile: Tile, share: int) -> float:
    """Multiply-adds for each load; activations come from L1, weights stream from further out."""
    vectors = tile.vectors * share
    return float(tile.rows * vectors / (0.5 * tile.rows + vectors))


def _tile(
    rows: int | None, row_blocks: int, tile: Tile, sch: s_tir.Schedule, tunable: bool
) -> tuple[bool, Tile]:
    """Return whether the last tile is partial, and the tile (of variables, if tunable)."""
    partial = rows is not None and rows % tile.rows != 0
    options = list(range(1, MAX_ROWS + 1)) if partial else b.divisors(rows or 1, MAX_ROWS)
    row = choose(sch, options, tile.rows, tunable)
    return partial, Tile(
        row, choose(sch, b.divisors(row_blocks, MAX_VECTORS), tile.vectors, tunable)
    )


class Contraction(ScheduleRule):
    """Tile rows x lanes into registers, walk the reduction innermost, store once.

    before: contract --> store --> element-wise blocks
    after:  for feature tile, row tile: { init; for reduction: unrolled multiply-adds; epilogue }

    Products of two activations walk their batches outermost and pack the right operand there.
    """

    def feasible(self, schedule: s_tir.Schedule) -> bool:
        """Whether the register tile fits the registers."""
        return b.registers(schedule, "contract") <= b.MOST_REGISTERS

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> s_tir.Schedule | None:
        """Schedule ``func`` if it holds a block marked ``dense``, ``balanced`` or ``matmul``."""
        sch = s_tir.Schedule(func)
        anchor = b.marked(sch, ("dense", "balanced", "matmul"))
        if anchor is None:
            return None
        kind = str(sch.get(anchor).annotations[KIND])
        epilogue = b.isolate(sch, anchor, keep=(PACK,))
        loops = sch.get_loops(anchor)
        spatial = b.spatial_count(sch, anchor)
        axis = int(sch.get(anchor).annotations[ROWS])
        lead, (block, inner), reduce = (
            loops[: spatial - 2],
            loops[spatial - 2 : spatial],
            loops[spatial:],
        )
        static = [[b.extent(sch, x) or 1 for x in group] for group in (lead, [block], reduce)]
        extents = (static[0], static[1][0], static[2])
        share = b.extent(sch, inner) if kind == "balanced" else 1
        flops = b.flops(sch, anchor) * (16 if kind == "balanced" else 1)
        rows = b.extent(sch, lead[axis])
        default = default_tile(rows, extents[1], share, accumulators(target))
        partial, tile = _tile(rows, extents[1], default, sch, tunable)
        row_out, row_in = sch.split(lead[axis], [None, tile.rows])
        blk_out, blk_in = sch.split(block, [None, tile.vectors])
        others = [loop for i, loop in enumerate(lead) if i != axis]
        if partial:
            sch.annotate(row_out, "pragma_loop_partition_hint", True)
        body = self._order(sch, kind, reduce, (row_in, blk_in, inner), tunable)
        first = _rows_first(extents, kind, default)
        # Loops with a partial tile cannot be fused into a parallel one.
        first = first and not (partial and flops > b.PARALLEL_FLOPS)
        far_rows, near_rows = near_and_far(sch, row_out, tunable and not partial, far=first)
        far_blocks, near_blocks = near_and_far(sch, blk_out, tunable, far=not first)
        outer = [*others, *far_blocks] if kind == "matmul" else [*far_blocks, *others]
        outer += far_rows
        near = [*near_blocks, *near_rows]
        sch.reorder(*outer, *near, *body)
        sch.set_scope(anchor, 0, "local")
        sch.reverse_compute_at(epilogue, near[-1], preserve_unit_loops=True)
        b.vectorise_tile(sch, epilogue, len(outer) + len(near), 16, tunable)
        parallel = others if kind == "matmul" else outer
        if parallel and flops > b.PARALLEL_FLOPS:
            parallel = [sch.fuse(*parallel)]
            sch.parallel(parallel[0])
        if kind == "matmul":
            self._pack(sch, anchor, parallel)
        sch.decompose_reduction(anchor, body[0])
        b.finish(sch)
        return sch

    @staticmethod
    def _pack(sch: s_tir.Schedule, anchor: Any, batches: list[Any]) -> None:
        """Pack the right operand of each batch just before its product."""
        (pack,) = [p for p in sch.get_producers(anchor) if sch.get(p).name_hint == PACK] or [None]
        if pack is None:
            return
        if batches:
            sch.compute_at(pack, batches[-1], preserve_unit_loops=True)
        sch.vectorize(sch.get_loops(pack)[-1])

    @staticmethod
    def _order(
        sch: s_tir.Schedule, kind: str, reduce: list[Any], tile: tuple[Any, Any, Any], tunable: bool
    ) -> list[Any]:
        """Return the loops inside the tile, outermost first; unroll and vectorise them."""
        row, block, inner = tile
        if kind != "balanced":
            sch.vectorize(inner)
            sch.unroll(row)
            sch.unroll(block)
            return [*reduce[:-1], *_steps(sch, reduce[-1], tunable), row, block, inner]
        *taps, bank, slot = reduce
        banks, keep = b.extent(sch, bank), b.extent(sch, slot)
        options = [d for d in b.divisors(banks, MAX_STEPS) if d * keep <= MAX_STEPS]
        word = choose(sch, options, b.word_banks(keep, banks), tunable)
        bank_out, bank_in = sch.split(bank, [None, word])
        for loop in (bank_in, block, slot, row, inner):
            sch.unroll(loop)
        return [*taps, bank_out, bank_in, block, slot, row, inner]


def _rows_first(extents: tuple[list[int], int, list[int]], kind: str, tile: Tile) -> bool:
    """Whether a row tile should meet all features before the next row tile.

    ``extents`` are those of the leading axes, of the feature blocks and of the reduction. Outputs
    are then written whole rows at a time, while all weights pass once a row tile. That pays where
    weights are small for their outputs (sparse, or many features of few columns), rows are many,
    and the reduction is long enough to hide the weights' way from the second cache.
    """
    lead, blocks, reduce = extents
    if math.prod(lead) < 8 * tile.rows:
        return False
    if kind == "balanced":
        return math.prod(reduce[:-1]) >= 8
    columns = math.prod(reduce)
    return kind == "dense" and LANES * blocks >= 4 * columns and columns >= 8 * LANES


def _steps(sch: s_tir.Schedule, loop: Any, tunable: bool) -> list[Any]:
    """Split a reduction into steps and unrolled steps; the default unrolls none."""
    extent = b.extent(sch, loop)
    if not tunable or extent is None:
        return [loop]
    out, inner = sch.split(loop, [None, choose(sch, b.divisors(extent, 8), 1, tunable)])
    sch.unroll(inner)
    return [out, inner]
