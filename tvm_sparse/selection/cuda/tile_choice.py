"""Which tile a thread block should take, by the fitted model of the chip."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tvm_sparse.base.numerics import bits_of, is_float
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda import mends
from tvm_sparse.ops.cuda.tile import ThreadBlockTile, round_up
from tvm_sparse.selection.cuda.chip import Chip
from tvm_sparse.selection.cuda.demand import seconds, sm_clocks
from tvm_sparse.selection.cuda.occupancy import WARP
from tvm_sparse.selection.cuda.tile_demand import Staging, tile_demand

ROWS = (128, 64, 32, 16)
FEATURES = (128, 96, 64, 48, 32, 16)
COLUMNS, BYTE_COLUMNS = (64, 48, 32, 16), (128, 64, 32)
NEAR, WARPS, IDLE = 1.06, 2, 1.35
"""Modelled time over the fastest tile's up to which a larger one is taken. Tiles of a single warp
take up to twice as long as they are modelled: any that is no slower than so many times is taken
first."""

PARTS, PART_STEPS = (2, 3, 4, 6, 8, 12, 16), 8
"""Parts that a reduction may be cut into, each of so many steps at least."""

PART_BLOCKS = 2
"""Thread blocks for each SM, at most, where a reduction is cut into parts: more gain little, and
partial sums take memory."""

SPLIT = 1.03
"""How many times faster parts must be modelled. On an H200 four parts gain 1.15 to 1.75 times at
8192 x 8192, where the model sees 1.15 to 1.42, and lose 1.05 times where it sees no gain."""

UNKNOWN_ROWS, TIMES_AS_MANY = 64, (1, 8, 64)
"""Rows that a symbolic extent counts as. A tile must serve many times as many, too: the best for
64 rows is modelled up to five times as slow as the best one for 4096."""


def known_rows(lead: tuple[Any, ...]) -> int:
    """Return the rows of a contraction's output; unknown ones are :data:`UNKNOWN_ROWS`."""
    static = [e for e in lead if isinstance(e, int)]
    return math.prod(static) * (UNKNOWN_ROWS if len(static) < len(lead) else 1)


def choose_tile(
    c: Contraction,
    staging: Staging,
    on: Chip,
    *,
    features: Sequence[int] = FEATURES,
    step: int | None = None,
    whole: bool = False,
) -> ThreadBlockTile:
    """Return the largest tile whose modelled time is near the smallest, of some widths.

    ``step`` prescribes the columns of a step. The reduction is cut into parts where that is faster
    with the kernel that adds them, unless it must stay ``whole``.
    """
    step = step or choose_step(staging.columns, c.dtype)
    shapes = list(itertools.product(heights(c), features))
    if not is_known(c):
        return _for_any_rows(c, staging, on, [ThreadBlockTile(*shape, step) for shape in shapes])
    best = _near_fastest(c, staging, on, [ThreadBlockTile(*shape, step) for shape in shapes])
    least, forced = _seconds(c, staging, best, on) / SPLIT, mends.in_use().parts
    for parts in () if whole else parts_of(c, staging, step):
        tiles = [ThreadBlockTile(*shape, step, parts) for shape in shapes]
        few = [tile for tile in tiles if forced or _blocks(c, tile) <= PART_BLOCKS * on.sms]
        tile = _near_fastest(c, staging, on, few) if few else best
        time = _seconds(c, staging, tile, on)
        if forced or time < least:
            best, least = tile, time
    return best


def heights(c: Contraction) -> list[int]:
    """Return the rows that a tile may have; rows that are filled up are no larger tile."""
    rows = known_rows(c.lead) * (1 if is_known(c) else TIMES_AS_MANY[-1])
    return [height for height in ROWS if height < rows + ROWS[-1]] or [ROWS[-1]]


def is_known(c: Contraction) -> bool:
    """Whether the rows of a contraction's output are known when compiling."""
    return all(isinstance(extent, int) for extent in c.lead)


def _for_any_rows(
    c: Contraction, staging: Staging, on: Chip, tiles: Sequence[ThreadBlockTile]
) -> ThreadBlockTile:
    """Return the tile with the least geometric mean of the times for few and many rows."""
    rows = known_rows(c.lead)
    counts = [replace(c, lead=(rows * times,)) for times in TIMES_AS_MANY]
    return min(
        tiles,
        key=lambda tile: math.prod(_seconds(each, staging, tile, on) for each in counts),
    )


def _blocks(c: Contraction, tile: ThreadBlockTile) -> int:
    """Return the thread blocks of a tile."""
    down, across = math.ceil(known_rows(c.lead) / tile.rows), math.ceil(c.features / tile.features)
    return down * across * tile.parts


def parts_of(c: Contraction, staging: Staging, step: int) -> list[int]:
    """Return the parts that a reduction may be cut into.

    Stored tiles are whole steps, equally many in each part. Extents that are not known when
    compiling have no room for partial sums.
    """
    if c.depthwise or not is_known(c):
        return []
    steps, stored = math.ceil(staging.columns / step), staging.bank > 0 or staging.halves
    long = [parts for parts in PARTS if steps // parts >= PART_STEPS]
    even = [parts for parts in long if not (stored and steps % parts)]
    forced = mends.in_use().parts
    return [parts for parts in even if parts <= forced][-1:] if forced else even


def _seconds(c: Contraction, staging: Staging, tile: ThreadBlockTile, on: Chip) -> float:
    """Return the modelled time of a tile."""
    size = (known_rows(c.lead), c.features)
    weights = staging.share * c.features * staging.read * item_bytes(c.dtype)
    nbytes = weights + activation_bytes(c)
    return seconds(tile_demand(size, staging, tile, c.dtype, on, nbytes=nbytes), on)


def _near_fastest(
    c: Contraction, staging: Staging, on: Chip, tiles: Sequence[ThreadBlockTile]
) -> ThreadBlockTile:
    """Return the largest tile near the fastest."""
    rows = known_rows(c.lead)
    clocks: dict[ThreadBlockTile, float] = {}
    warps: dict[ThreadBlockTile, int] = {}
    for tile in tiles:
        demand = tile_demand((rows, c.features), staging, tile, c.dtype, on)
        clocks[tile], warps[tile] = sm_clocks(demand, on), demand.threads // WARP
    least = min(clocks.values())
    full = [t for t in clocks if warps[t] >= WARPS and clocks[t] <= IDLE * least] or list(clocks)
    best = min(clocks[tile] for tile in full)
    near = [tile for tile in full if clocks[tile] <= NEAR * best]
    return max(near, key=lambda tile: (tile.rows * tile.features, -clocks[tile]))


def choose_step(columns: int, dtype: str) -> int:
    """Return the longest step whose padding is short, else the one that pads ``columns`` least.

    A step has a barrier and waits for its copies whatever its length, so 976 columns take 16 steps
    of 64, though 61 of 16 would fill up nothing.
    """
    steps = COLUMNS if is_float(dtype) else BYTE_COLUMNS
    short = columns * (1 + mends.in_use().step_padding)
    longest = next((step for step in steps if round_up(columns, step) <= short), None)
    return longest or min(steps, key=lambda step: (round_up(columns, step), -step))


def activation_bytes(c: Contraction) -> float:
    """Return the bytes of input and output."""
    channels = c.features + c.columns * math.prod(c.strides)
    return known_rows(c.lead) * channels * item_bytes(c.dtype)


def item_bytes(dtype: str) -> int:
    """Return the bytes of an element."""
    return bits_of(dtype) // 8
