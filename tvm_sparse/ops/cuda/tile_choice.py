"""Which tile a thread block should take, by a model of waves, multiply-adds and bytes from L2."""

from __future__ import annotations

import math
from typing import Any

from tvm_sparse.ops.cuda.chip import Chip
from tvm_sparse.ops.cuda.tile import Tile, round_up

ROWS = (128, 64, 32, 16)
FEATURES = (128, 96, 64, 48, 32, 16)
COLUMNS = (64, 48, 32, 16)
UNKNOWN_ROWS = 64
"""Rows that a symbolic extent counts as."""

STEP_CLOCKS = 60.0
"""Clocks that a step costs whatever its size: barriers, addresses, waiting for the first bytes."""


def choose_tile(
    rows: Any, features: int, columns: int, dtype: str, chip: Chip, *, fixed: int | None = None
) -> Tile:
    """Return the tile with the smallest modelled time.

    ``rows`` may be symbolic; ``fixed`` prescribes the features of a tile (the edge of a block).
    """
    known = rows if isinstance(rows, int) else UNKNOWN_ROWS
    step = choose_step(columns)
    shapes = [(r, f) for r in ROWS for f in ((fixed,) if fixed else FEATURES)]
    tiles = [Tile(r, f, step) for r, f in shapes]
    size = (known, features, columns)
    return min(tiles, key=lambda t: (_clocks(size, t, dtype, chip), t.rows, t.features))


def choose_step(columns: int) -> int:
    """Return the columns of a step that pad ``columns`` least, the longest of them."""
    return min(COLUMNS, key=lambda step: (round_up(columns, step), -step))


def _clocks(size: tuple[int, int, int], tile: Tile, dtype: str, chip: Chip) -> float:
    """Return modelled clocks of a product of ``size`` (rows, features, columns)."""
    rows, features, columns = size
    blocks = math.ceil(rows / tile.rows) * math.ceil(features / tile.features)
    item = 4 if dtype == "float32" else 2
    products = tile.rows * tile.features / chip.multiply_adds[dtype]
    fed = (tile.rows + tile.features) * item / chip.feed
    # Several thread blocks on one SM hide each other's waiting.
    waiting = STEP_CLOCKS / min(4.0, max(1.0, blocks / chip.sms))
    steps = math.ceil(columns / tile.columns)
    alone = steps * (tile.columns * max(products, fed) + waiting)
    return math.ceil(blocks / chip.sms) * alone
