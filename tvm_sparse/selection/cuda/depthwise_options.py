"""The ways to store and compute a depthwise convolution on NVIDIA GPUs, with modelled times."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from tvm.target import Target

from tvm_sparse.formats.block import BlockFormat
from tvm_sparse.formats.dense import DenseTapFormat
from tvm_sparse.formats.depthwise import DepthwiseTapsFormat
from tvm_sparse.machine.vector import SUM_BITS
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda.block_weights import BlockOperand
from tvm_sparse.ops.cuda.depthwise import Strip, depthwise, window
from tvm_sparse.ops.cuda.depthwise_taps import choose_plane, depthwise_taps
from tvm_sparse.ops.cuda.multiply import multiplier
from tvm_sparse.ops.cuda.tile import ThreadBlockTile, tiled
from tvm_sparse.patterns.block import Block
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.cuda import tile_choice as model
from tvm_sparse.selection.cuda.assumptions import (
    ISSUED,
    TAP_LOAD,
    TAP_PLACE,
    TAP_STORE,
)
from tvm_sparse.selection.cuda.chip import Chip, chip
from tvm_sparse.selection.cuda.demand import memory_and
from tvm_sparse.selection.cuda.option import Option
from tvm_sparse.selection.cuda.tile_demand import staging_of
from tvm_sparse.selection.cuda.tile_option import tile_option

WINDOW_VECTORS = 24
"""Vectors of input that a thread may hold: larger windows leave too few warps on an SM."""

LANES = 32
GROUP = 32
"""Channels of a sub-GEMM of the diagonal-wise refactorization (DEPrune, section 3)."""


def dense(c: Contraction, target: Target) -> Option:
    """Return the dense direct kernel."""
    strip, on, (channels, taps) = choose_strip(c), chip(target), c.matrix_shape
    time = depthwise_seconds(c, strip_instructions(c) * on.costs.strip, on)
    format = DenseTapFormat(channels, taps)
    return Option("dense", "strip", format, 1.0, time, lambda: depthwise(c, strip))


def strip_instructions(c: Contraction) -> float:
    """Return the instructions of a lane for an output of the dense kernel."""
    strip = choose_strip(c)
    staged = math.prod(window(c, (strip.height, strip.width))) / (strip.height * strip.width)
    conversion = 1.0 if c.numerics.bits < SUM_BITS else 0.25
    return c.matrix_shape[1] + staged * conversion + TAP_STORE


def taps_instructions(c: Contraction, slots: int) -> float:
    """Return the same for the kernel that reads ``slots`` kept taps."""
    tile = choose_plane(c, LANES)
    taken = math.prod(window(c, (tile.height, tile.width)))
    padded = math.prod(
        math.ceil(extent / size) * size / extent
        for extent, size in zip(c.lead[1:], (tile.height, tile.width), strict=True)
    )
    pixels = tile.height * tile.width
    own = 2 * slots + taken / pixels * TAP_LOAD + slots * TAP_PLACE / tile.width + TAP_STORE
    return padded * own


def sparse(c: Contraction, scan: Scan, target: Target) -> Iterator[Option | str]:
    """Yield the direct kernel that reads kept taps only."""
    format = DepthwiseTapsFormat.of(scan.weight, lanes=LANES, shared=False, limit=1)
    tile, slots = choose_plane(c, LANES), format.buckets.parts[0].slots
    taken = math.prod(window(c, (tile.height, tile.width)))
    if taken * LANES * 4 > int(target.attrs["max_shared_memory_per_block"]):
        yield f"depthwise_taps: a window of {taken} pixels does not fit shared memory"
        return
    on = chip(target)
    time = depthwise_seconds(c, taps_instructions(c, slots) * on.costs.taps, on)
    kept = slots / scan.cols
    name, kernel = "depthwise_taps", "taps of lanes"
    yield Option(name, kernel, format, kept, time, lambda: depthwise_taps(c, format, tile))


def rearranged(c: Contraction, matrix: np.ndarray, target: Target) -> Option:
    """Return the papers' way, as a baseline: sub-GEMMs of 32 channels, kept columns only.

    A row of a sub-GEMM has the taps of its channel and zeros elsewhere, so 31 of 32 products are
    redundant; a pruned tap removes a column, and its row of the unfolded input, which is gathered
    on chip (DR, DEPrune, section 3). Without zeros in ``matrix`` it is the unpruned baseline. Its
    format encodes ``matrix`` as :func:`diagonal`.
    """
    full, format, tile = sub_gemms(c, matrix, target)
    weights, work = BlockOperand(format, tile), format.buckets.parts[0].slots / matrix.shape[1]
    name, kernel, multiply = "rearranged", "sub-GEMM", multiplier(c.numerics)
    build = partial(tiled, full, weights, tile, multiply)
    return tile_option(name, format, tile, (c, chip(target)), build, work=work, kernel=kernel)


def sub_gemms(
    c: Contraction, matrix: np.ndarray, target: Target
) -> tuple[Contraction, BlockFormat, ThreadBlockTile]:
    """Return the convolution without groups, its kept columns of 32 channels, and a tile."""
    format = BlockFormat.of(diagonal(matrix), Block(GROUP, 1), limit=1)
    staging = staging_of(format, c.dtype)
    tile = model.choose_tile(c, staging, chip(target), features=(GROUP,))
    return replace(c, depthwise=False), format, tile


def diagonal(matrix: np.ndarray) -> np.ndarray:
    """Return ``(channels, taps * channels)``: depthwise kernels as one without groups."""
    channels, taps = matrix.shape
    full = np.zeros((channels, taps, channels), matrix.dtype)
    index = np.arange(channels)
    full[index, :, index] = matrix
    return full.reshape(channels, -1)


def choose_strip(c: Contraction) -> Strip:
    """Return the output pixels of a thread: fewer where their window is large."""
    # A window of 16-bit vectors takes twice the registers of an fp32 one.
    strips = [Strip(2, 4), Strip(2, 2)] if c.numerics.bits == SUM_BITS else [Strip(2, 2)]
    vectors = {strip: math.prod(window(c, (strip.height, strip.width))) for strip in strips}
    return next((s for s in strips if vectors[s] <= WINDOW_VECTORS), Strip(1, 2))


def depthwise_seconds(
    c: Contraction, instructions: float, on: Chip, *, written: bool = False
) -> float:
    """Return the time of a kernel that issues ``instructions`` for each output of a lane."""
    clocks = model.known_rows(c.lead) * c.features * instructions / (ISSUED * on.sms)
    return memory_and(clocks + on.costs.begin, model.activation_bytes(c), on, written=written)
