"""Weights on Hopper's tensor cores as options: on ``sm_90a`` alone, with a modelled time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from tvm.target import Target

from tvm_sparse.base.targets import cuda_archs
from tvm_sparse.formats.dense import DenseFormat
from tvm_sparse.formats.swizzled_banks import MOST_SLOTS, SwizzledBanksFormat
from tvm_sparse.formats.swizzled_blocks import EDGE, SwizzledBlocksFormat
from tvm_sparse.formats.swizzled_quads import STEP as QUADS_STEP
from tvm_sparse.formats.swizzled_quads import SwizzledQuadsFormat
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda import library, mends
from tvm_sparse.ops.cuda.wgmma import WgmmaTile, fits, wgmma_banks, wgmma_blocks, wgmma_two_four
from tvm_sparse.ops.cuda.wgmma_weights import (
    GROUP_THREADS,
    KEPT,
    MATRIX,
    TWO_FOUR,
    Weights,
    banks,
)
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.cuda.chip import Chip, chip
from tvm_sparse.selection.cuda.demand import memory_and, slower
from tvm_sparse.selection.cuda.option import Option
from tvm_sparse.selection.cuda.tile_choice import (
    PART_BLOCKS,
    PART_STEPS,
    PARTS,
    SPLIT,
    activation_bytes,
    is_known,
    item_bytes,
    known_rows,
)

ARCH = "sm_90a"

FEATURES = (64, 128)
"""Features of a block, or of a tile: one warpgroup each 64."""

ROWS = {
    "kept": ((64, (8, 16, 32, 64)), (256, (64,)), (1024, (128,))),
    "two_four": ((64, (8, 16, 32, 64)), (1024, (128,))),
    "banks": ((64, (8, 16, 32, 64)), (256, (128,))),
    "matrix": ((64, (8, 16, 32, 64)), (256, (64,)), (1024, (128,))),
}
"""Up to so many rows of activations, the tiles to take the lowest of that holds them all. These
were the best of each count on an H200 (``benchmarks/gpu/hopper``)."""

SUM_BYTES = 4

MOST_ROWS, TWO_RESIDENT, MOST_STAGES, LEAST_STAGES = 256, 128, 10, 3

LAUNCH, MEMORY, TENSOR, TILE, STEP = 5.4e-6, 1.15, 0.58, 2940.0, 101.0
"""Seconds of an empty kernel; the time of a byte over that of a copy; the part of the tensor cores'
peak; clocks of a tile and of a step besides, which a second resident thread block hides. Fitted to
36 times of an H200 of kernels that were written by hand (``benchmarks/results/gpu_hopper.json``):
half within 1.06, all within 1.3."""

PASS, CHAIN, PLACED = 0.745, 135.0, 2.6
"""Of banks, clocks of a pass over shared memory and of a step besides, fitted to eight times of an
H200 of kernels by hand: all within 1.05. Those put values to their places and multiplied in turns,
which ours are to do at once: the clocks besides are what a GPU may show to be less. Then the passes
of a warp's 32 stores to places, which the executor counted."""

UNMEASURED = {"kept": 1.1, "two_four": 1.0, "banks": 1.0, "matrix": 1.1}
"""Factor on the time until a GPU has timed these kernels: those by hand had a warp that only
copies, and a few had two thread blocks for a tile. Those of 2:4 took 0.8 to 0.87 of what the model
says."""


@dataclass(frozen=True)
class _Way:
    """Tiles of features, a format, all steps of all tiles, and its share of the products."""

    name: str
    weights: Weights
    features: int
    format: Any
    steps: int
    work: float
    build: Any


def block_options(c: Contraction, scan: Scan, target: Target) -> Iterator[Option]:
    """Yield blocks of 64 and of 128 features, where the target and the layer allow it."""
    for features in _features(c, target, EDGE):
        kept = int(np.count_nonzero(scan.block_counts(features, EDGE)))
        format = SwizzledBlocksFormat(*c.matrix_shape, features, kept)
        work = format.stored * features * EDGE / (c.features * c.columns)
        yield _option(c, target, _Way("block", KEPT, features, format, kept, work, wgmma_blocks))


def dense_options(c: Contraction, target: Target) -> Iterator[Option]:
    """Yield matrices that keep all blocks, of known rows of activations, where they are allowed."""
    for features in _features(c, target, EDGE) if is_known(c) else ():
        format = SwizzledBlocksFormat.dense(*c.matrix_shape, features)
        way = _Way("dense", KEPT, features, format, format.kept, 1.0, wgmma_blocks)
        yield _option(c, target, way)


def matrix_options(c: Contraction, target: Target) -> Iterator[Option]:
    """Yield matrices that a library shares, otherwise as :func:`dense_options`."""
    for features in _features(c, target, EDGE) if is_known(c) else ():
        format = DenseFormat(*c.matrix_shape, lanes=-(-c.features // features) * features)
        steps = format.lanes // features * -(-c.columns // EDGE)
        way = _Way("dense", MATRIX, features, format, steps, 1.0, library.wgmma_product)
        yield _option(c, target, way)


def two_four_options(c: Contraction, target: Target) -> Iterator[Option]:
    """Yield 2:4 weights in tiles of 64 and of 128 features, where they are allowed."""
    for features in _features(c, target, QUADS_STEP):
        format = SwizzledQuadsFormat(*c.matrix_shape, features)
        steps = format.down * format.steps
        way = _Way("two_four", TWO_FOUR, features, format, steps, 0.5, wgmma_two_four)
        yield _option(c, target, way)


def bank_options(c: Contraction, scan: Scan, target: Target, name: str) -> Iterator[Option]:
    """Yield kept tiles that are put together from banks, where no row is too full for it."""
    if not _features(c, target, EDGE):
        return
    slots = SwizzledBanksFormat.slots_of(scan.weight)
    if slots <= MOST_SLOTS:
        kept = int(np.count_nonzero(scan.block_counts(EDGE, EDGE)))
        format = SwizzledBanksFormat(*c.matrix_shape, slots, kept)
        work = format.tiles.stored * EDGE**2 / (c.features * c.columns)
        way = _Way(name, banks(slots), EDGE, format, kept, work, wgmma_banks)
        yield _option(c, target, way)


def fastest(own: Option, hopper: Iterator[Option]) -> Option:
    """Return the fastest by the model: by ``mma.sync``, or on Hopper by ``wgmma``."""
    engine, found = mends.in_use().block_engine, list(hopper)
    ways = {"mma.sync": [own], "wgmma": found}.get(engine) or [own, *found]
    return min(ways, key=lambda option: option.seconds)


def _features(c: Contraction, target: Target, columns: int) -> list[int]:
    """Return the features of a tile that the target and the layer allow, of a step's columns."""
    if cuda_archs(target) != (ARCH,) or not fits(c) or columns > c.columns:
        return []
    return [features for features in FEATURES if features <= c.features]


def _option(c: Contraction, target: Target, way: _Way) -> Option:
    rows, limit = known_rows(c.lead), int(target.attrs["max_shared_memory_per_block"])
    format, features = way.format, way.features
    down = -(-c.features // features)
    nbytes, on = format.nbytes(c.dtype) + activation_bytes(c), chip(target)
    tile = tile_of(rows, features, limit, item_bytes(c.out_dtype), way.weights)
    time = seconds(rows, (down, way.steps), tile, nbytes, on)
    for parts in PARTS if is_known(c) else ():
        cut = replace(tile_of(rows, features, limit, SUM_BYTES, way.weights), parts=parts)
        blocks = -(-rows // cut.rows) * down * parts
        if way.steps >= PART_STEPS * parts * down and blocks <= PART_BLOCKS * on.sms:
            added = (parts * SUM_BYTES + item_bytes(c.out_dtype)) * rows * down * features
            own = seconds(rows, (down, way.steps), cut, nbytes, on) + memory_and(0.0, added, on)
            if own < time / SPLIT:
                tile, time = cut, own
    build = partial(way.build, c, format, tile)
    return Option(way.name, "wgmma", format, way.work, UNMEASURED[way.weights.name] * time, build)


def tile_of(
    rows: int, features: int, limit: int, result: int, weights: Weights = KEPT
) -> WgmmaTile:
    """Return the tile for so many rows of activations, with ``limit`` bytes of shared memory.

    ``result`` are the bytes of a sum as it is handed on.
    """
    heights = next((heights for most, heights in ROWS[weights.name] if rows <= most), (MOST_ROWS,))
    height = next((one for one in heights if one >= rows), heights[-1])
    while True:
        tile = _deepest(WgmmaTile(height, features, MOST_STAGES, weights), limit, result)
        if tile is not None:
            return tile
        height //= 2


def _deepest(most: WgmmaTile, limit: int, result: int) -> WgmmaTile | None:
    """Return ``most`` with as many of its stages as fit; None if too few do."""
    # Two thread blocks of an SM hide each other's waiting; each reserves a little more.
    half, least = limit // 2 - 1024, most.weights.tiles + most.weights.teams or LEAST_STAGES
    for room in (half, limit) if most.rows <= TWO_RESIDENT else (limit,):
        for stages in range(most.stages, least - 1, -2 if most.weights.teams else -1):
            tile = replace(most, stages=stages)
            if tile.nbytes(result) <= room:
                return tile
    return None


def seconds(rows: int, blocks: tuple[int, int], tile: WgmmaTile, nbytes: float, on: Chip) -> float:
    """Return the modelled time of ``blocks``: tiles of features, and the steps of all of them.

    A step of 2:4 weights takes as long as one of kept blocks: it has twice the products, at twice
    the rate.
    """
    down, kept = blocks[0] * tile.parts, blocks[1]
    each = max(1.0, math.ceil(rows / tile.rows) * down / on.sms)
    resident = min(2.0 if tile.rows <= TWO_RESIDENT else 1.0, each)
    clocks = each * (kept / down * _step_clocks(tile, resident, on) + TILE / resident)
    return LAUNCH + slower(MEMORY * nbytes / on.bandwidth, clocks / on.clock)


def _step_clocks(tile: WgmmaTile, resident: float, on: Chip) -> float:
    """Return the clocks of a step of a thread block, of which an SM holds so many.

    Banks pass over shared memory for copies of words and activations, for words, zeros and places
    of threads, and for the tile and the activations of the product.
    """
    weights = tile.weights
    if not weights.teams:
        products = tile.rows * tile.features * EDGE / (on.peaks["float16"] * TENSOR)
        return products + STEP / resident
    words, matrix = weights.nbytes[0] / 128, EDGE * EDGE * 2 / 128
    stores = PLACED * GROUP_THREADS / 32 * weights.slots
    return PASS * (2 * words + stores + 2 * matrix + 2 * tile.rows) + CHAIN / resident
