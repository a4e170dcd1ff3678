"""Blocks on Hopper's tensor cores as an option: on ``sm_90a`` alone, with a modelled time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np
from tvm.target import Target

from tvm_sparse.base.targets import cuda_archs
from tvm_sparse.formats.swizzled_blocks import EDGE, SwizzledBlocksFormat
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda.wgmma import WgmmaTile, fits, wgmma_blocks
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.cuda.chip import Chip, chip
from tvm_sparse.selection.cuda.demand import slower
from tvm_sparse.selection.cuda.option import Option
from tvm_sparse.selection.cuda.tile_choice import activation_bytes, item_bytes, known_rows

ARCH = "sm_90a"

FEATURES = (64, 128)
"""Features of a block: one warpgroup each 64."""

ROWS = ((64, (8, 16, 32, 64)), (256, (64,)), (1024, (128,)))
"""Up to so many rows of activations, the tiles to take the lowest of that holds them all. These
were the best of each count on an H200 (``benchmarks/gpu/hopper``)."""

MOST_ROWS, TWO_RESIDENT, MOST_STAGES, LEAST_STAGES = 256, 128, 10, 3

LAUNCH, MEMORY, TENSOR, TILE, STEP = 5.4e-6, 1.15, 0.58, 2940.0, 101.0
"""Seconds of an empty kernel; the time of a byte over that of a copy; the part of the tensor cores'
peak; clocks of a tile and of a step besides, which a second resident thread block hides. Fitted to
36 times of an H200 of kernels that were written by hand (``benchmarks/results/gpu_hopper.json``):
half within 1.06, all within 1.3."""

UNMEASURED = 1.1
"""Factor on the time until a GPU has timed this kernel: those by hand had a warp that only copies,
and a few had two thread blocks for a tile."""


def wgmma_options(c: Contraction, scan: Scan, target: Target) -> Iterator[Option]:
    """Yield blocks of 64 and of 128 features, where the target and the layer allow it."""
    if cuda_archs(target) != (ARCH,) or not fits(c):
        return
    on, rows = chip(target), known_rows(c.lead)
    limit = int(target.attrs["max_shared_memory_per_block"])
    for features in FEATURES:
        if features > c.features or EDGE > c.columns:
            continue
        kept = int(np.count_nonzero(scan.block_counts(features, EDGE)))
        format = SwizzledBlocksFormat(*c.matrix_shape, features, kept)
        tile = tile_of(rows, features, limit, item_bytes(c.out_dtype))
        nbytes = format.nbytes(c.dtype) + activation_bytes(c)
        yield Option(
            "block",
            "wgmma",
            format,
            format.stored * features * EDGE / (c.features * c.columns),
            UNMEASURED * seconds(rows, (format.down, kept), tile, nbytes, on),
            partial(wgmma_blocks, c, format, tile),
        )


def tile_of(rows: int, features: int, limit: int, result: int) -> WgmmaTile:
    """Return the tile for so many rows of activations, with ``limit`` bytes of shared memory.

    ``result`` are the bytes of a sum as it is handed on.
    """
    heights = next((heights for most, heights in ROWS if rows <= most), (MOST_ROWS,))
    height = next((one for one in heights if one >= rows), heights[-1])
    tile = _deepest(height, features, limit, result)
    while tile is None:
        height //= 2
        tile = _deepest(height, features, limit, result)
    return tile


def _deepest(height: int, features: int, limit: int, result: int) -> WgmmaTile | None:
    """Return the tile of ``height`` rows with the most stages that fit; None if too few do."""
    # Two thread blocks of an SM hide each other's waiting; each reserves a little more.
    half = limit // 2 - 1024
    for room in (half, limit) if height <= TWO_RESIDENT else (limit,):
        for stages in range(MOST_STAGES, LEAST_STAGES - 1, -1):
            tile = WgmmaTile(height, features, stages)
            if tile.nbytes(result) <= room:
                return tile
    return None


def seconds(rows: int, blocks: tuple[int, int], tile: WgmmaTile, nbytes: float, on: Chip) -> float:
    """Return the modelled time of ``blocks``: block rows, and all kept blocks."""
    down, kept = blocks
    each = max(1.0, math.ceil(rows / tile.rows) * down / on.sms)
    resident = min(2.0 if tile.rows <= TWO_RESIDENT else 1.0, each)
    products = tile.rows * tile.features * EDGE / (on.peaks["float16"] * TENSOR)
    clocks = each * (kept / down * (products + STEP / resident) + TILE / resident)
    return LAUNCH + slower(MEMORY * nbytes / on.bandwidth, clocks / on.clock)
