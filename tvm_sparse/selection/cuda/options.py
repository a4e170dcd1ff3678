"""The ways to store and compute a contraction on NVIDIA GPUs, with modelled times."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tvm.target import Target

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.block import BlockFormat
from tvm_sparse.formats.dense import DenseFormat
from tvm_sparse.formats.two_four import KEEP, QUAD, TwoFourFormat
from tvm_sparse.machine.vector import SUM_BITS
from tvm_sparse.numerics import FLOAT32
from tvm_sparse.ops.contraction import Contraction
from tvm_sparse.ops.cuda import stream
from tvm_sparse.ops.cuda.block_weights import BlockOperand
from tvm_sparse.ops.cuda.dense_weights import DenseOperand
from tvm_sparse.ops.cuda.multiply import multiplier
from tvm_sparse.ops.cuda.tile import ThreadBlockTile, tiled
from tvm_sparse.ops.cuda.two_four import SparseTensorCore, TwoFourOperand
from tvm_sparse.patterns.block import Block
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.cuda import depthwise_options
from tvm_sparse.selection.cuda import tile_choice as model
from tvm_sparse.selection.cuda.assumptions import Chip, chip
from tvm_sparse.selection.cuda.bank_options import balanced, joint, plain
from tvm_sparse.selection.cuda.option import Option

BLOCK_EDGES = ((128, 64), (64, 64), (64, 32), (32, 64), (32, 32), (32, 16), (16, 32), (16, 16))
"""Block rows and columns that are tried: any matrix of larger blocks fits one of them too."""

TWO_FOUR_STEP = 64
"""Columns that a thread block stages at a time of 2:4 weights."""


def dense(c: Contraction, target: Target) -> Option:
    """Return the dense way; it always exists."""
    if c.depthwise:
        return depthwise_options.dense(c, target)
    if c.dtype != FLOAT32.activation and not all(isinstance(extent, int) for extent in c.lead):
        raise UnsupportedError(  # TVM cannot place the epilogue of padded tiles then
            "target cuda",
            f"a product of {c.dtype} whose rows are not known before it runs",
            "fixed shapes for fp16 and bf16",
            f"compile for a fixed batch, or in {FLOAT32.activation}",
        )
    on, (features, columns), rows = chip(target), c.matrix_shape, model.known_rows(c.lead)
    if rows == 1 and plain(c):
        return _dense_row(c, on)
    size = (rows, features, columns)
    tile = model.choose_tile(size, c.dtype, on)
    storage = DenseFormat(features, columns, lanes=tile.features)
    clocks = model.tile_clocks(size, tile, c.dtype, on)
    time = model.seconds(clocks, storage.nbytes(c.dtype) + model.activation_bytes(c), on)
    weights, kernel = DenseOperand(storage, tile), multiplier(c.numerics)
    return Option("dense", "tile", storage, 1.0, time, lambda: tiled(c, weights, tile, kernel))


def _dense_row(c: Contraction, on: Chip) -> Option:
    """Return the product with a single row of activations."""
    storage = DenseFormat(*c.matrix_shape, lanes=1)
    warps = stream.choose_warps(c.features, on.sms)
    time = model.seconds(0.0, storage.nbytes(c.dtype) / stream.EFFICIENCY, on)
    name, kernel = "dense", "stream"
    return Option(name, kernel, storage, 1.0, time, lambda: stream.stream_dense(c, storage, warps))


def sparse(c: Contraction, scan: Scan, target: Target) -> Iterator[Option | str]:
    """Yield every sparse option that fits a weight, or why one does not."""
    finders = (balanced, two_four, block, joint, unstructured)
    for find in (depthwise_options.sparse,) if c.depthwise else finders:
        yield from find(c, scan, target)


def block(c: Contraction, scan: Scan, target: Target) -> Iterator[Option | str]:
    """Yield the block storage with the smallest modelled time, of all block edges."""
    on, rows, (features, columns) = chip(target), model.known_rows(c.lead), c.matrix_shape
    best: tuple[float, float, ThreadBlockTile, Block] | None = None
    for down, across in BLOCK_EDGES:
        if down > features or across > columns:
            continue
        slots = max(1, int((scan.block_counts(down, across) > 0).sum(1).max()))
        size = (rows, features, slots * across)
        tile = model.choose_tile(size, c.dtype, on, features=down)
        clocks = model.tile_clocks(size, tile, c.dtype, on)
        stored = math.ceil(features / down) * down * slots * across
        nbytes = stored * model.item_bytes(c.dtype) + model.activation_bytes(c)
        time = model.seconds(clocks, nbytes, on)
        if best is None or time < best[0]:
            best = (time, stored / (features * columns), tile, Block(down, across))
    if best is None:
        yield f"block needs at least 16 x 16, found {features} x {columns}"
        return
    time, work, tile, pattern = best
    storage = BlockFormat.of(scan.weight, pattern, limit=1)
    weights, kernel = BlockOperand(storage, tile), multiplier(c.numerics)
    yield Option("block", "tile", storage, work, time, lambda: tiled(c, weights, tile, kernel))


def unstructured(_c: Contraction, _scan: Scan, _target: Target) -> Iterator[Option | str]:
    """Yield why zeros anywhere have no storage of their own."""
    yield "unstructured: GPUs store it in padded banks (balanced)"


def two_four(c: Contraction, scan: Scan, target: Target) -> Iterator[Option | str]:
    """Yield 2:4 weights on sparse tensor cores, wherever the mask allows it.

    It often does where banks are longer, or zeros anywhere: every four columns are looked at.
    """
    if c.numerics.bits == SUM_BITS or c.depthwise:
        yield "two_four: fp16 and bf16 linear layers and convolutions only"
        return
    if (most := TwoFourFormat.most(scan.weight)) > KEEP:
        yield f"two_four: {most} of {QUAD} neighbouring columns are kept, at most {KEEP} fit"
        return
    on, rows = chip(target), model.known_rows(c.lead)
    sizes = [ThreadBlockTile(r, f, TWO_FOUR_STEP) for r in model.ROWS for f in (128, 64, 32)]
    size = (rows, c.features, c.matrix_shape[1] // 2)
    tile = min(sizes, key=lambda t: (model.tile_clocks(size, t, c.dtype, on), t.rows, t.features))
    storage = TwoFourFormat(*c.matrix_shape, lanes=tile.features, step=tile.columns)
    clocks = model.tile_clocks(size, tile, c.dtype, on)
    time = model.seconds(clocks, storage.nbytes(c.dtype) + model.activation_bytes(c), on)
    weights, kernel = TwoFourOperand(storage, tile), SparseTensorCore()
    name = "two_four"
    yield Option(name, "2:4 tile", storage, 0.5, time, lambda: tiled(c, weights, tile, kernel))
