"""The ways to store and compute a contraction on NVIDIA GPUs, with modelled times."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from tvm.target import Target

from tvm_sparse.formats.block import BlockFormat
from tvm_sparse.formats.buckets import Bucket, Buckets
from tvm_sparse.formats.dense import DenseFormat
from tvm_sparse.formats.two_four import KEEP, QUAD, TwoFourFormat
from tvm_sparse.machine.vector import SUM_BITS
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda import mends, stream
from tvm_sparse.ops.cuda.block_weights import BlockOperand
from tvm_sparse.ops.cuda.dense_weights import DenseOperand, DenseRows
from tvm_sparse.ops.cuda.multiply import multiplier
from tvm_sparse.ops.cuda.tile import ThreadBlockTile, tiled
from tvm_sparse.ops.cuda.two_four import SparseTensorCore, TwoFourOperand
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.cuda import depthwise_options
from tvm_sparse.selection.cuda import tile_choice as model
from tvm_sparse.selection.cuda.bank_options import balanced, joint, plain
from tvm_sparse.selection.cuda.chip import Chip, chip
from tvm_sparse.selection.cuda.demand import seconds
from tvm_sparse.selection.cuda.option import Option
from tvm_sparse.selection.cuda.stream_demand import dense_demand
from tvm_sparse.selection.cuda.tile_demand import Staging, staging_of
from tvm_sparse.selection.cuda.tile_option import stored_demand, tile_option
from tvm_sparse.selection.cuda.wgmma_option import (
    block_options,
    dense_options,
    fastest,
    two_four_options,
)

BLOCK_EDGES = ((128, 64), (64, 64), (64, 32), (32, 64), (32, 32), (32, 16), (16, 32), (16, 16))
"""Block rows and columns that are tried: any matrix of larger blocks fits one of them too."""

TWO_FOUR_STEP, QUAD_LANES = 64, (128, 64, 32)
"""Columns that a thread block stages at a time of 2:4 weights, and its features."""


def dense(c: Contraction, target: Target) -> Option:
    """Return the dense way; it always exists."""
    if c.depthwise:
        return depthwise_options.dense(c, target)
    on, columns, rows = chip(target), c.matrix_shape[1], model.known_rows(c.lead)
    if rows == 1 and plain(c) and c.numerics.floating:
        return _dense_row(c, on)
    tile = model.choose_tile(c, Staging(columns), on)
    weights, kernel = _dense_weights(c, tile), multiplier(c.numerics)
    format = weights.format
    own = tile_option("dense", format, tile, (c, on), lambda: tiled(c, weights, tile, kernel))
    return fastest(own, dense_options(c, target))


def _dense_weights(c: Contraction, tile: ThreadBlockTile) -> DenseOperand:
    """Return the weights of a tile: features side by side, or columns of bytes."""
    if c.numerics.floating:
        return DenseOperand(DenseFormat(*c.matrix_shape, lanes=tile.features), tile)
    return DenseRows(DenseFormat(*c.matrix_shape, lanes=1), tile)


def _dense_row(c: Contraction, on: Chip) -> Option:
    """Return the product with a single row of activations."""
    format = DenseFormat(*c.matrix_shape, lanes=1)
    warps = stream.choose_warps(c.features, on.sms)
    demand = dense_demand(c, format, warps)
    time, name, kernel = seconds(demand, on), "dense", "stream"
    build = partial(stream.stream_dense, c, format, warps)
    return Option(name, kernel, format, 1.0, time, build, demand)


def sparse(c: Contraction, scan: Scan, target: Target) -> Iterator[Option | str]:
    """Yield every sparse option that fits a weight, or why one does not."""
    finders = (balanced, two_four, block, joint, unstructured)
    for find in (depthwise_options.sparse,) if c.depthwise else finders:
        yield from find(c, scan, target)


def block(c: Contraction, scan: Scan, target: Target) -> Iterator[Option | str]:
    """Yield the block format with the smallest modelled time, of all block edges and engines."""
    if not c.numerics.floating:
        yield "block: tiles of bytes want features first, which blocks do not store"
        return
    on, (features, columns) = chip(target), c.matrix_shape
    best: tuple[float, ThreadBlockTile, BlockFormat] | None = None
    for down, across in BLOCK_EDGES:
        if down > features or across > columns:
            continue
        counts = (scan.block_counts(down, across) > 0).sum(1)
        slots, kept = max(1, int(counts.max())), int(counts.sum())
        buckets = Buckets((Bucket(math.ceil(features / down), slots),))
        counted = kept if mends.in_use().true_counts and kept < buckets.slots else 0
        format = BlockFormat(features, columns, down, across, buckets, counted)
        tile = model.choose_tile(c, staging_of(format, c.dtype), on, features=(down,))
        time = seconds(stored_demand(c, format, tile, on), on)
        if best is None or time < best[0]:
            best = (time, tile, format)
    if best is None:
        yield f"block needs at least 16 x 16, found {features} x {columns}"
        return
    _, tile, format = best
    weights, kernel = BlockOperand(format, tile), multiplier(c.numerics)
    work = (format.kept or format.buckets.slots) * format.block_rows * format.block_cols
    own = tile_option(
        "block",
        format,
        tile,
        (c, on),
        lambda: tiled(c, weights, tile, kernel),
        work=work / (features * columns),
    )
    yield fastest(own, block_options(c, scan, target))


def unstructured(_c: Contraction, _scan: Scan, _target: Target) -> Iterator[Option | str]:
    """Yield why zeros anywhere have no format of their own."""
    yield "unstructured: GPUs store it in padded banks (balanced)"


def two_four(c: Contraction, scan: Scan, target: Target) -> Iterator[Option | str]:
    """Yield 2:4 weights on sparse tensor cores, wherever the mask allows it.

    It often does where banks are longer, or zeros anywhere: every four columns are looked at.
    """
    if c.numerics.bits == SUM_BITS or not c.numerics.floating or c.depthwise:
        yield "two_four: fp16 and bf16 linear layers and convolutions only"
        return
    if (most := TwoFourFormat.most(scan.weight)) > KEEP:
        yield f"two_four: {most} of {QUAD} neighbouring columns are kept, at most {KEEP} fit"
        return
    on = chip(target)
    format, tile = quads(c, on)
    weights, kernel = TwoFourOperand(format, tile), SparseTensorCore()
    own = tile_option(
        "two_four",
        format,
        tile,
        (c, on),
        lambda: tiled(c, weights, tile, kernel),
        work=0.5,
        kernel="2:4 tile",
    )
    yield fastest(own, two_four_options(c, target))


def quads(
    c: Contraction, on: Chip, *, whole: bool = False
) -> tuple[TwoFourFormat, ThreadBlockTile]:
    """Return how 2:4 weights are stored, and the tile; ``whole``: the reduction is not cut."""
    most = TwoFourFormat(*c.matrix_shape, lanes=QUAD_LANES[0], step=TWO_FOUR_STEP)
    staging = staging_of(most, c.dtype)
    found = model.choose_tile(c, staging, on, features=QUAD_LANES, step=TWO_FOUR_STEP, whole=whole)
    return TwoFourFormat(*c.matrix_shape, lanes=found.features, step=found.columns), found
