"""Register-tiled contractions on CPUs: dense and balanced, with whatever epilogue was fused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import s_tir, tirx
from tvm.target import Target

from tvm_sparse.ops.batch_matmul import PACK
from tvm_sparse.ops.marks import KIND, ROWS
from tvm_sparse.schedules.cpu import blocks as b
from tvm_sparse.schedules.rule import ScheduleRule

ACCUMULATORS = 16
"""Vector accumulators of a register tile; 28 and more spill on 32 registers."""


@dataclass(frozen=True)
class Tile:
    """Rows and vectors of lanes that one register tile spans."""

    rows: int
    vectors: int


def default_tile(rows: int | None, row_blocks: int, share: int = 1) -> Tile:
    """Choose the tile with the most accumulators, then the squarest.

    ``rows`` is the extent of the tiled axis (``None`` if symbolic), ``row_blocks`` the number of
    lane vectors of the output. Without a good divisor the last tile is partial.
    """
    extent = rows or 1
    best = max(
        (r * v * share <= ACCUMULATORS, r * v * share, -abs(r - v * share), r, v)
        for r in b.divisors(extent, 14)
        for v in b.divisors(row_blocks, 8)
        if r * v * share <= ACCUMULATORS
    )
    tile = Tile(best[3], best[4])
    if tile.rows * tile.vectors * share * 2 > ACCUMULATORS or extent < 4:
        return tile
    vectors = max(v for v in b.divisors(row_blocks, 4) if v * share <= ACCUMULATORS)
    return Tile(min(extent, ACCUMULATORS // (vectors * share)), vectors)


class Contraction(ScheduleRule):
    """Tile rows x lanes into registers, walk the reduction innermost, store once.

    before: contract --> store --> element-wise blocks
    after:  for feature tile, row tile: { init; for reduction: unrolled multiply-adds; epilogue }

    Products of two activations walk their batches outermost and pack the right operand there.
    """

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
        share = b.extent(sch, inner) if kind == "balanced" else 1
        flops = b.flops(sch, anchor) * (16 if kind == "balanced" else 1)
        rows = b.extent(sch, lead[axis])
        tile = default_tile(rows, b.extent(sch, block), share)
        row_out, row_in = sch.split(lead[axis], b.factors(sch, lead[axis], tile.rows, tunable))
        blk_out, blk_in = sch.split(block, b.factors(sch, block, tile.vectors, tunable))
        others = [loop for i, loop in enumerate(lead) if i != axis]
        if rows is not None and rows % tile.rows and not tunable:
            sch.annotate(row_out, "pragma_loop_partition_hint", True)
        body = self._order(sch, kind, reduce, (row_in, blk_in, inner))
        outer = [*others, blk_out] if kind == "matmul" else [blk_out, *others]
        sch.reorder(*outer, row_out, *body)
        sch.set_scope(anchor, 0, "local")
        sch.reverse_compute_at(epilogue, row_out, preserve_unit_loops=True)
        b.vectorise_tile(sch, epilogue, len(outer) + 1, 16)
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
        sch: s_tir.Schedule, kind: str, reduce: list[Any], tile: tuple[Any, Any, Any]
    ) -> list[Any]:
        """Return the loops inside the tile, outermost first; unroll and vectorise them."""
        row, block, inner = tile
        if kind != "balanced":
            sch.vectorize(inner)
            sch.unroll(row)
            sch.unroll(block)
            return [*reduce, row, block, inner]
        *taps, bank, slot = reduce
        word = b.word_banks(b.extent(sch, slot), b.extent(sch, bank))
        bank_out, bank_in = sch.split(bank, [None, word])
        for loop in (bank_in, block, slot, row, inner):
            sch.unroll(loop)
        return [*taps, bank_out, bank_in, block, slot, row, inner]
