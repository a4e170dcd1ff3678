"""Ways by an engine for tiles, dense and of kept blocks, and what they would cost."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tvm.target import Target

from tvm_sparse.base.numerics import bits_of
from tvm_sparse.machine.registry import machine_of
from tvm_sparse.machine.tiles import TileUnit
from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.contractions.block_tiles import BLOCKS, block_tiles, kept_steps_format
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.dense import dense_format
from tvm_sparse.ops.contractions.tile_nest import (
    TileRows,
    most_blocks,
    pairs_worth,
    plain,
    row_bytes,
)
from tvm_sparse.ops.contractions.tiles import blocks_of, steps_of, tiles
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.candidate import Candidate
from tvm_sparse.selection.covers import Cover, covers
from tvm_sparse.selection.cpu.assumptions import SINGLE_BLOCK, TILE_ROWS
from tvm_sparse.selection.narrow import stored

SHORTER = 4
"""Parts of the longest step that are tried."""


def tiles_candidates(contraction: Contraction, target: Target) -> Iterator[Candidate]:
    """Yield the dense way in tiles where the machine has an engine and rows are enough."""
    c, unit = contraction, _unit(contraction, target)
    if unit is None:
        return
    format = dense_format(c, target)
    func = tiles(c, format, target)
    held = stored(format, c, target, in_tiles=True)
    pairs = math.ceil(blocks_of(c, unit) / 2)
    penalty = _penalty(c, unit, unit.step_of(row_bytes(c)), steps_of(c, unit) * pairs)
    yield Candidate("tiles", held, func, 1.0, penalty)


def block_tiles_candidates(
    contraction: Contraction, scan: Scan, target: Target
) -> Iterator[Candidate | str]:
    """Yield the cheapest format that leaves out steps of tiles without a nonzero."""
    c, unit = contraction, _unit(contraction, target)
    if unit is None:
        return
    size, longest = bits_of(c.numerics.activation) // 8, unit.step_of(row_bytes(c))
    steps = [longest // n for n in range(1, SHORTER + 1) if longest % (4 * n) == 0]
    groups = tuple(n * LANES for n in BLOCKS if c.features % (n * LANES) == 0)

    def penalty(cover: Cover) -> float:
        step, vectors = cover.run * size, cover.group // LANES
        kept = max(1.0, cover.fraction * scan.cols / cover.run)
        pairs = max(1, min(pairs_worth(unit, kept), most_blocks(c, unit) // 2))
        single = SINGLE_BLOCK if vectors == 1 else 1.0
        return single * _penalty(c, unit, step, kept * pairs)

    runs = tuple(step // size for step in steps)
    best = min(covers(scan, groups, runs), key=lambda cover: cover.fraction * penalty(cover))
    if best.fraction == 1:
        return
    step, vectors = best.run * size, best.group // LANES
    format = kept_steps_format(c, scan, target, step, vectors)
    held = stored(format, c, target, in_tiles=True)
    func = block_tiles(c, format, target)
    yield Candidate("block_tiles", held, func, best.fraction, penalty(best))


def _unit(c: Contraction, target: Target) -> TileUnit | None:
    """Return the machine's engine if it can make the sums, and rows and features are enough."""
    if c.rows < TILE_ROWS or c.features % LANES or not plain(c, target):
        return None
    return machine_of(target).tile_unit(c.numerics.activation)


def _penalty(c: Contraction, unit: TileUnit, step: int, steps: float) -> float:
    """Return the modelled cost of a multiply-add, relative to dense, for calls of ``steps``.

    A product takes as long as its rows; loading what it multiplies takes as long as half of them.
    """
    tile = TileRows.of(c, unit)
    rows = tile.size if isinstance(tile.extent, int) else min(unit.rows, c.typical_lead[-1])
    full = unit.rows / rows * max(0.5, rows / unit.rows) * unit.step / step
    begin = unit.begin / steps * unit.rows / rows
    return unit.cost * (full + begin)
