"""Which tile a thread block should take, and how long the product takes, by a model.

The model knows waves of thread blocks, multiply-adds, bytes from L2 and from memory. It is made
from data sheets, not from measurements (docs/performance/gpu.md).
"""

from __future__ import annotations

import math
from typing import Any

from tvm_sparse.numerics import bits_of
from tvm_sparse.ops.contraction import Contraction
from tvm_sparse.ops.cuda import mends
from tvm_sparse.ops.cuda.tile import ThreadBlockTile, round_up
from tvm_sparse.selection.cuda.assumptions import LAUNCH_SECONDS, STEP_CLOCKS, Chip

ROWS = (128, 64, 32, 16)
FEATURES = (128, 96, 64, 48, 32, 16)
COLUMNS = (64, 48, 32, 16)
UNKNOWN_ROWS = 64
"""Rows that a symbolic extent counts as."""

Size = tuple[int, int, int]
"""Rows, features and columns of a product."""


def known_rows(lead: tuple[Any, ...]) -> int:
    """Return the rows of a contraction's output; unknown ones are :data:`UNKNOWN_ROWS`."""
    static = [e for e in lead if isinstance(e, int)]
    return math.prod(static) * (UNKNOWN_ROWS if len(static) < len(lead) else 1)


def choose_tile(
    size: Size, dtype: str, chip: Chip, *, features: int | None = None, step: int | None = None
) -> ThreadBlockTile:
    """Return the tile with the smallest modelled time; ``features``, ``step`` prescribe extents."""
    step = step or choose_step(size[2])
    across = (features,) if features else FEATURES
    tiles = [ThreadBlockTile(r, f, step) for r in ROWS for f in across]
    return min(tiles, key=lambda t: (tile_clocks(size, t, dtype, chip), t.rows, t.features))


def choose_step(columns: int) -> int:
    """Return the longest step whose padding is short, else the one that pads ``columns`` least.

    A step has a barrier and waits for its copies whatever its length, so 976 columns take 16 steps
    of 64, though 61 of 16 would fill up nothing.
    """
    short = columns * (1 + mends.in_use().step_padding)
    longest = next((step for step in COLUMNS if round_up(columns, step) <= short), None)
    return longest or min(COLUMNS, key=lambda step: (round_up(columns, step), -step))


def tile_clocks(
    size: Size, tile: ThreadBlockTile, dtype: str, chip: Chip, *, per_step: float = 0.0
) -> float:
    """Return the clocks of a tiled product; ``per_step`` are those of other work in a step."""
    rows, features, columns = size
    blocks = math.ceil(rows / tile.rows) * math.ceil(features / tile.features)
    products = tile.rows * tile.features / chip.multiply_adds[dtype]
    fed = (tile.rows + tile.features) * item_bytes(dtype) / chip.feed
    # Several thread blocks on one SM hide each other's waiting.
    waiting = STEP_CLOCKS / min(4.0, max(1.0, blocks / chip.sms))
    steps = math.ceil(columns / tile.columns)
    alone = steps * (tile.columns * max(products, fed) + waiting + per_step)
    return math.ceil(blocks / chip.sms) * alone


def seconds(clocks: float, nbytes: float, chip: Chip) -> float:
    """Return the time of a kernel that computes for ``clocks`` and moves ``nbytes`` meanwhile."""
    return LAUNCH_SECONDS + max(clocks / chip.clock, nbytes / chip.bandwidth)


def activation_bytes(c: Contraction) -> float:
    """Return the bytes of input and output."""
    channels = c.features + c.columns * math.prod(c.strides)
    return known_rows(c.lead) * channels * item_bytes(c.dtype)


def item_bytes(dtype: str) -> int:
    """Return the bytes of an element."""
    return bits_of(dtype) // 8
