"""Whether a depthwise and a 1x1 convolution should be one kernel on NVIDIA GPUs, by a model."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from tvm.target import Target

from tvm_sparse.formats.dense import DenseFormat, DenseTapFormat
from tvm_sparse.machine.vector import SUM_BITS
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda.depthwise import window
from tvm_sparse.ops.cuda.multiply import EDGE, LANES
from tvm_sparse.ops.cuda.separable import SeparableTile
from tvm_sparse.ops.cuda.tile import ThreadBlockTile, round_up
from tvm_sparse.selection.cuda import tile_choice as model
from tvm_sparse.selection.cuda.assumptions import (
    BLOCK_SHARED,
    ISSUED,
    OTHER_REGISTERS,
    SM_REGISTERS,
    SM_THREADS,
    STRIP_LOAD,
    STRIP_REGISTERS,
    TAP_STORE,
)
from tvm_sparse.selection.cuda.chip import Chip, chip
from tvm_sparse.selection.cuda.demand import memory_and

CHANNELS = 4
"""Channels of a strip: wider loads would keep more of the window in registers."""

ROWS = (32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256)
LONGEST = 8
"""Pixels of a strip, at most."""

COLUMNS = (16, 32, 48, 64, 96, 128)
FEATURE_BLOCKS = (1, 2, 3, 4)
"""Blocks of features that are tried; each of them computes the depthwise half again."""

THREADS = (64, 512)
"""Threads of a block, least and most."""

SUMS = {True: 64, False: 32}
"""Sums of the product in the registers of a thread at most: on tensor cores, in fp32."""


@dataclass(frozen=True)
class SeparableChoice:
    """A pair in one kernel: its tile, the formats of its weights, and its modelled time.

    ``saved`` are the bytes of the tensor between the two, which is neither written nor read.
    """

    first: Contraction
    second: Contraction
    shape: SeparableTile
    seconds: float

    @property
    def formats(self) -> tuple[DenseTapFormat, DenseFormat]:
        """Formats of the taps and of the 1x1 weights."""
        lanes = self.shape.tile.features
        return (
            DenseTapFormat(*self.first.matrix_shape),
            DenseFormat(*self.second.matrix_shape, lanes=lanes),
        )

    @property
    def saved(self) -> int:
        """Bytes of the tensor between both, written once and read once."""
        return 2 * math.prod(self.first.output_shape) * model.item_bytes(self.first.dtype)


def separable(first: Contraction, second: Contraction, target: Target) -> SeparableChoice | str:
    """Return the fastest single kernel of a depthwise and a 1x1 convolution, or why there is none.

    Both are dense here: pruned taps are multiplied as zeros. What tap pruning gains the kernels
    with taps of their own have; a caller compares their times.
    """
    reason = _unfit(first, second)
    if reason:
        return reason
    on, most = chip(target), int(target.attrs["max_shared_memory_per_block"])
    found = ((shape_seconds(first, second, s, on), s) for s in _shapes(first, second, most))
    best = min(found, key=lambda timed: timed[0], default=None)
    if best is None:
        return f"no tile of {second.features} features x {first.lead[2]} pixels fits"
    return SeparableChoice(first, second, best[1], best[0])


def _unfit(first: Contraction, second: Contraction) -> str:
    """Return why two convolutions cannot be one kernel, empty if they can."""
    if not all(isinstance(extent, int) for extent in first.lead):
        return "its batch is not known when compiling"
    if math.prod(second.taps) != 1 or second.strides != (1, 1) or second.borders:
        return "the convolution behind it is not a plain 1x1"
    if first.dtype != second.dtype:
        return f"types differ: {first.dtype} and {second.dtype}"
    if first.features % CHANNELS:
        return f"needs a multiple of {CHANNELS} channels, found {first.features}"
    return ""


def _shapes(first: Contraction, second: Contraction, shared: int) -> Iterator[SeparableTile]:
    """Yield what a thread block could compute and how its threads would share it."""
    tensor_core = first.numerics.bits < SUM_BITS
    width, channels = first.lead[2], first.features
    item = model.item_bytes(first.dtype)
    strips = [n for n in range(LONGEST, 0, -1) if width % n == 0]
    strips = [n for n in strips if n == 1 or _registers(first, n) <= STRIP_REGISTERS]
    padded = min(round_up(channels, step) for step in COLUMNS)
    steps = [step for step in COLUMNS if round_up(channels, step) == padded]
    widths = {round_up(math.ceil(second.features / n), EDGE) for n in FEATURE_BLOCKS}
    for rows, features, step in itertools.product(ROWS, sorted(widths), steps):
        tile = ThreadBlockTile(rows, features, step)
        if shared_bytes(tile, item) > shared:
            continue
        for down, across in _pieces(tile, tensor_core):
            threads = down * across * (LANES if tensor_core else 1)
            for strip in strips:
                parts = rows // strip * step // CHANNELS
                taken = threads * _thread_registers(first, tile, strip, threads)
                if rows % strip == 0 and parts % threads == 0 and taken <= SM_REGISTERS:
                    yield SeparableTile(tile, strip, CHANNELS, down, across)


def _pieces(tile: ThreadBlockTile, tensor_core: bool) -> Iterator[tuple[int, int]]:
    """Yield how many pieces a tile has along rows and features, one for each warp or thread."""
    unit, threads = (EDGE, LANES) if tensor_core else (1, 1)
    rows = tile.rows // unit
    widths = range(1, tile.features // EDGE + 1) if tensor_core else [tile.features // CHANNELS]
    for across in widths:
        for down in (d for d in range(1, rows + 1) if rows % d == 0):
            count = down * across * threads
            sums = tile.rows * tile.features / count
            whole = tile.features % (across * unit) == 0
            if whole and THREADS[0] <= count <= THREADS[1] and sums <= SUMS[tensor_core]:
                yield down, across


def shape_seconds(
    first: Contraction,
    second: Contraction,
    shape: SeparableTile,
    on: Chip,
    *,
    written: bool = False,
) -> float:
    """Return the modelled time: two phases a step, which thread blocks on one SM overlap."""
    tile, item = shape.tile, model.item_bytes(first.dtype)
    pixels = math.prod(first.lead)
    blocks = math.ceil(pixels / tile.rows) * math.ceil(second.features / tile.features)
    steps = math.ceil(first.features / tile.columns)
    taps = math.prod(first.taps)
    vectors = math.prod(window(first, (1, shape.strip))) / shape.strip
    conversion = 0.0 if item == 4 else 1.0
    weights = taps * (conversion + STRIP_LOAD / CHANNELS) / shape.strip
    one = taps + vectors * (conversion + STRIP_LOAD / CHANNELS) + weights + TAP_STORE
    sums = on.costs.pair * tile.rows * tile.columns * one / ISSUED
    products = tile.rows * tile.features * tile.columns / on.multiply_adds(first.dtype)
    fed = tile.columns * item * (_halo(first, tile.rows) + tile.features) / on.costs.feed
    # fp32 products and sums of taps are the same sort of instruction; tensor cores run besides.
    busy = max(sums + products if item == 4 else max(sums, products), fed)
    threads = shape.down * shape.across * (LANES if item == 2 else 1)
    registers = _thread_registers(first, tile, shape.strip, threads)
    resident = min(
        SM_REGISTERS // int(threads * registers),
        SM_THREADS // threads,
        (on.shared - BLOCK_SHARED) // shared_bytes(tile, item),
    )
    each = math.ceil(blocks / on.sms)
    waves = math.ceil(each / resident)
    clocks = steps * max(each * busy, waves * (max(sums, fed) + products + on.costs.pair_step))
    nbytes = item * (
        math.prod(first.input_shape)
        + pixels * second.features
        + math.prod(first.matrix_shape)
        + math.prod(second.matrix_shape)
    )
    return memory_and(clocks, nbytes, on, written=written)


def _halo(c: Contraction, rows: int) -> float:
    """Return the pixels of input that ``rows`` neighbouring outputs read, halo included."""
    width = c.lead[2]
    lines = math.ceil(rows / width) + (1 if rows % width and width % rows else 0)
    high, wide = window(c, (lines, min(rows, width)))
    return high * wide


def _thread_registers(c: Contraction, tile: ThreadBlockTile, strip: int, threads: int) -> float:
    """Return about how many registers a thread takes."""
    return _registers(c, strip) + tile.rows * tile.features / threads + OTHER_REGISTERS


def _registers(c: Contraction, strip: int) -> float:
    """Return the registers that the window and the taps of a strip take."""
    vectors = math.prod(window(c, (1, strip))) + math.prod(c.taps)
    return vectors * CHANNELS * model.item_bytes(c.dtype) / 4


def shared_bytes(tile: ThreadBlockTile, item: int) -> int:
    """Return the most shared memory of a block: operands of a step, and the tile of results.

    Rows have 32 elements of padding at most; results pass through as fp32 on tensor cores only.
    """
    wide = tile.features + 32
    operands = tile.rows * (tile.columns + 32) + tile.columns * wide
    return operands * item + (tile.rows * wide * 4 if item == 2 else 0)
