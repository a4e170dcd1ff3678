"""What a tiled contraction demands of a chip, from its tile and from how its weights are staged.

Threads, shared memory and copies under way are those of the default schedule; passes over shared
memory are what the executor of PTX counts (``tests/cuda/test_tile_demand.py``).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Any

from tvm_sparse.base.numerics import FLOAT_SUMS, bits_of
from tvm_sparse.formats.block import BlockFormat
from tvm_sparse.formats.dense import DenseFormat
from tvm_sparse.formats.kept_tiles import KeptTilesFormat
from tvm_sparse.formats.tile_banks import TileBanksFormat
from tvm_sparse.formats.two_four import TwoFourFormat
from tvm_sparse.ops.cuda.multiply import EDGE
from tvm_sparse.ops.cuda.ptx import is_held
from tvm_sparse.ops.cuda.tile import VECTOR_BITS, ThreadBlockTile
from tvm_sparse.schedules.cuda.threads import WARP
from tvm_sparse.schedules.cuda.tile import STAGES
from tvm_sparse.schedules.cuda.tile_scalar import VECTOR, thread_shape
from tvm_sparse.schedules.cuda.tile_tensor_core import default_warps
from tvm_sparse.selection.cuda.assumptions import BANK_CLEAR, BANK_PLACE, BLOCK_SHARED
from tvm_sparse.selection.cuda.chip import Chip
from tvm_sparse.selection.cuda.demand import Demand

BYTES = VECTOR_BITS // 8
"""Bytes of a copy of one thread."""

BANKS_BYTES = 128
"""Bytes that a pass over shared memory moves at most: 32 banks of four."""

QUARTERS = 4
"""Passes of a warp's accesses of 16 bytes."""

PLACE_PASSES, CHAIN_PASSES, PLACE_BYTES = 3.0, 0.2, 2
"""Passes of 32 bytes that are written at random; a value of a bank that is loaded alone takes
so many more, one of fewer bytes takes no less. The executor counted all
(benchmarks/gpu/modelled_grid.py, tests/cuda/test_tile_demand.py)."""

COPY_INSTRUCTIONS, WARP_INSTRUCTIONS, PRODUCT_INSTRUCTIONS = 8.0, 40.0, 1.3
"""Instructions of a copy of 16 bytes, of a warp in a step, and of a product that tensor cores or
multiply-adds do at once (counted by the executor, about)."""

FRAGMENT = 4096
"""Multiply-adds of an instruction of tensor cores, for each byte of an operand's elements."""

OTHER_REGISTERS = 32
"""Registers of a thread besides its sums (machine code, about)."""


@dataclass(frozen=True)
class Staging:
    """How weights get on chip, ``columns`` of them in all, a tile at a time.

    ``share`` are the bytes that are copied over those of a dense tile. ``keep`` values of each
    ``bank`` columns are placed one by one; rows of an fp32 tile are stored ``apart``. ``run``
    columns have an entry of a table. ``halves`` says that 2:4 weights stay packed. ``mean`` are the
    columns that a block has, if some have fewer than ``columns``, ``unread`` the bytes that are
    stored for the others.
    """

    columns: int
    share: float = 1.0
    bank: int = 0
    keep: int = 0
    apart: int = 1
    run: int = 0
    halves: bool = False
    mean: float = 0.0
    unread: float = 0.0

    @property
    def read(self) -> float:
        """Columns that a block has, on average."""
        return self.mean or float(self.columns)


@functools.singledispatch
def staging_of(format: Any, dtype: str) -> Staging:
    """Return how the weights of ``format``, of ``dtype``, get on chip."""
    raise NotImplementedError(f"{type(format).__name__}, {dtype}")


@staging_of.register
def _(format: DenseFormat, dtype: str) -> Staging:
    del dtype
    return Staging(format.cols)


@staging_of.register
def _(format: TileBanksFormat, dtype: str) -> Staging:
    item = bits_of(dtype) // 8
    row = format.slots * item + format.words * 4
    share = row / (format.step * item)
    columns = format.steps * format.step
    return Staging(columns, share, format.bank, format.keep, format.apart)


@staging_of.register
def _(format: KeptTilesFormat, dtype: str) -> Staging:
    return replace(staging_of(format.banks, dtype), run=format.banks.step)


@staging_of.register
def _(format: BlockFormat, dtype: str) -> Staging:
    (bucket,) = format.buckets.parts
    columns, across = bucket.slots * format.block_cols, format.block_cols
    if not format.kept:
        return Staging(columns, run=across)
    block = format.block_rows * across * bits_of(dtype) / 8
    unread = (bucket.slots * format.down - format.kept) * block
    return Staging(columns, run=across, mean=format.kept * across / format.down, unread=unread)


@staging_of.register
def _(format: TwoFourFormat, dtype: str) -> Staging:
    whole = format.row_blocks * format.lanes * format.steps * format.step * bits_of(dtype) / 8
    return Staging(format.cols, format.nbytes(dtype) / whole, halves=True)


def tile_demand(
    size: tuple[int, int],
    staging: Staging,
    tile: ThreadBlockTile,
    dtype: str,
    on: Chip,
    *,
    nbytes: float = 0.0,
) -> Demand:
    """Return the demand of a product of ``size``: rows of activations, and features."""
    rows, features = size
    item, banks = bits_of(dtype) // 8, _banks(tile, staging)
    down, across, threads = layout(tile, dtype, halves=staging.halves)
    warps, area = threads / WARP, tile.rows * tile.features
    products = area * tile.columns / (2 if staging.halves else 1)
    copied = tile.rows * tile.columns * item, staging.share * tile.features * tile.columns * item
    copies = sum(copied) / BYTES
    if dtype == FLOAT_SUMS:
        issued = PRODUCT_INSTRUCTIONS * products / WARP
        passes = _scalar_passes(tile, down, across, staging)
    else:
        issued = warps * WARP_INSTRUCTIONS + PRODUCT_INSTRUCTIONS * products * item / FRAGMENT
        read = tile.features * tile.columns * item * (staging.share if staging.halves else 1)
        passes = (copied[0] * across + read * down) / BANKS_BYTES
    held = is_held(staging.keep)
    each = math.ceil(banks / threads)
    place = BANK_CLEAR * staging.bank * item / BYTES + BANK_PLACE * staging.keep
    passed = PLACE_PASSES + (0.0 if held else CHAIN_PASSES * staging.keep)
    value = passed * max(item, PLACE_BYTES) * staging.keep + staging.bank * item / BYTES * QUARTERS
    partial = partial_bytes(rows * features, tile.parts)
    steps = math.ceil(math.ceil(staging.columns / tile.columns) / tile.parts)
    return Demand(
        blocks=math.ceil(rows / tile.rows) * math.ceil(features / tile.features) * tile.parts,
        threads=threads,
        registers=OTHER_REGISTERS + math.ceil(area / threads),
        shared=_shared(tile, item, on, staging),
        steps=steps if not staging.mean else min(steps, staging.mean / tile.columns / tile.parts),
        longest=steps,
        dtype=dtype,
        nbytes=nbytes + partial,
        products=products,
        passes=passes + banks / WARP * value,
        fed=copied[0] * min(1.0, rows / tile.rows) + copied[1],
        issued=issued + (banks * place + copies * COPY_INSTRUCTIONS) / WARP,
        chain=each * (1 if held else staging.keep),
        banks=each,
        lookups=_lookups(tile, item, threads, staging),
        added=partial + rows * features * item if partial else 0.0,
    )


def partial_bytes(sums: int, parts: int) -> float:
    """Return the bytes of ``sums`` for each of ``parts``, none where there is one part."""
    return sums * parts * 4.0 if parts > 1 else 0.0


def layout(tile: ThreadBlockTile, dtype: str, *, halves: bool = False) -> tuple[int, int, int]:
    """Return parts of a tile along rows and features, of warps or threads, and all threads."""
    if dtype == FLOAT_SUMS:
        down, across = thread_shape(tile.rows, tile.features)
        return down, across, down * across
    edges = (EDGE, 2 * EDGE) if halves else (EDGE, EDGE)
    warps: Any = default_warps(tile.rows, tile.features, edges)
    return warps.rows, warps.features, warps.rows * warps.features * WARP


def _banks(tile: ThreadBlockTile, staging: Staging) -> float:
    return tile.features * tile.columns / staging.bank if staging.bank else 0.0


def _scalar_passes(tile: ThreadBlockTile, down: int, across: int, staging: Staging) -> float:
    """Return the passes of fp32 operands: vectors of rows, and of four columns or features."""
    warps = down * across / WARP
    # Rows of a decoded tile that are neighbours lie four apart for the threads of a quarter.
    packed = staging.bank > 0 and staging.apart == 1
    conflicts = max(1.0, min(across, 2 * VECTOR) / 2) if packed else 1.0
    vectors = tile.rows / down + VECTOR * conflicts
    return tile.columns / VECTOR * warps * vectors * QUARTERS


def _shared(tile: ThreadBlockTile, item: int, on: Chip, staging: Staging) -> int:
    """Return the shared memory of a block: copies under way, and a decoded tile."""
    pad, most = BYTES // item, on.shared - BLOCK_SHARED
    whole = tile.rows * (tile.columns + 32 + pad) + tile.columns * (tile.features + 32 + pad)
    depth = max(2, min(STAGES, most // (whole * item)))
    dense = tile.columns * (tile.features + pad)
    copied = tile.rows * (tile.columns + pad) + staging.share * dense
    decoded = tile.features * (tile.columns + pad) if staging.bank else 0
    return int((depth * copied + decoded) * item)


def _lookups(tile: ThreadBlockTile, item: int, threads: int, staging: Staging) -> float:
    """Return the entries of a table that a thread reads in a step, for its copies.

    All threads read the same one where a block is as wide as a step.
    """
    if not staging.run:
        return 0.0
    if staging.run >= tile.columns:
        return 1.0
    return max(1.0, tile.rows * tile.columns * item / BYTES / threads)
