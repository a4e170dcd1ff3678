"""How many rows and lane vectors of results a contraction keeps in registers at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import s_tir

from tvm_sparse.schedules.blocks import divisors
from tvm_sparse.schedules.sampling import choose

MAX_ROWS = 14
MAX_VECTORS = 8
"""Largest extents of a register tile."""


@dataclass(frozen=True)
class RegisterTile:
    """Rows and vectors of lanes that one register tile spans (numbers or schedule variables)."""

    rows: Any
    vectors: Any


def default_tile(
    rows: int | None,
    row_blocks: int,
    share: int = 1,
    *,
    most: int,
    widest: int = MAX_VECTORS,
    loads: float = 1,
    whole: bool = False,
) -> RegisterTile:
    """Choose the tile that does the most multiply-adds for each load.

    ``rows`` is the extent of the tiled axis, ``None`` if symbolic. ``row_blocks`` is the number of
    lane vectors of the output, ``most`` that of the accumulators that registers hold. ``widest`` is
    how many vectors a tile may span, ``loads`` how many a vector of weights takes with its indices.
    Without a good divisor the last tile is partial, unless all have to be ``whole``.
    """
    extent, most = rows or 1, max(most, share)
    tiles = [
        RegisterTile(r, v)
        for r in divisors(extent, MAX_ROWS)
        for v in divisors(row_blocks, min(MAX_VECTORS, widest))
        if r * v * share <= most
    ]
    tile = max(tiles, key=lambda t: (_reuse(t, share, loads), -abs(t.rows - t.vectors * share)))
    if whole or tile.rows * tile.vectors * share * 2 > most or extent < 4:
        return tile
    vectors = max(v for v in divisors(row_blocks, min(4, widest)) if v * share <= most)
    return RegisterTile(min(extent, most // (vectors * share)), vectors)


def sampled_tile(
    sch: s_tir.Schedule,
    rows: int | None,
    row_blocks: int,
    default: RegisterTile,
    tunable: bool,
    *,
    widest: int = MAX_VECTORS,
) -> RegisterTile:
    """Return ``default``, or a tile of variables of the trace that begin with it."""
    partial = is_partial(rows, default)
    options = list(range(1, MAX_ROWS + 1)) if partial else divisors(rows or 1, MAX_ROWS)
    row = choose(sch, options, default.rows, tunable)
    vectors = divisors(row_blocks, min(MAX_VECTORS, widest))
    return RegisterTile(row, choose(sch, vectors, default.vectors, tunable))


def is_partial(rows: int | None, tile: RegisterTile) -> bool:
    """Return whether the last tile has fewer rows than ``tile``."""
    return rows is not None and rows % tile.rows != 0


def _reuse(tile: RegisterTile, share: int, loads: float) -> float:
    """Multiply-adds for each load; activations come from L1, weights stream from further out."""
    vectors = tile.vectors * share
    return float(tile.rows * vectors / (0.5 * tile.rows + loads * vectors))
