"""The dense way by an engine for tiles, and what it would cost."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tvm.target import Target

from tvm_sparse.machine.registry import machine_of
from tvm_sparse.machine.tiles import TileUnit
from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.dense import dense_format
from tvm_sparse.ops.contractions.tiles import (
    TileRows,
    blocks_of,
    fits,
    row_bytes,
    steps_of,
    tiles,
)
from tvm_sparse.selection.candidate import Candidate
from tvm_sparse.selection.cpu.assumptions import TILE_ROWS
from tvm_sparse.selection.narrow import stored


def tiles_candidates(contraction: Contraction, target: Target) -> Iterator[Candidate]:
    """Yield the dense way in tiles where the machine has an engine and rows are enough."""
    c, unit = contraction, machine_of(target).tile_unit(contraction.numerics.activation)
    if unit is None or c.rows < TILE_ROWS or c.features % LANES or not fits(c, target):
        return
    format = dense_format(c, target)
    func = tiles(c, format, target)
    held = stored(format, c, target, in_tiles=True)
    yield Candidate("tiles", held, func, 1.0, _penalty(c, unit))


def _penalty(c: Contraction, unit: TileUnit) -> float:
    """Return the modelled cost of a multiply-add, relative to dense.

    A product takes as long as its rows; loading what it multiplies takes as long as half of them.
    """
    tile = TileRows.of(c, unit)
    rows = tile.size if isinstance(tile.extent, int) else min(unit.rows, c.typical_lead[-1])
    step = unit.step_of(row_bytes(c))
    full = unit.rows / rows * max(0.5, rows / unit.rows) * unit.step / step
    pairs = math.ceil(blocks_of(c, unit) / 2)
    begin = unit.begin / (steps_of(c, unit) * pairs) * unit.rows / rows
    return unit.cost * (full + begin)
