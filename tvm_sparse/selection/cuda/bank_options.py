"""The ways to store banks of nonzeros for NVIDIA GPUs, with modelled times."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tvm.target import Target

from tvm_sparse.formats.kept_tiles import KeptTilesFormat, most_kept
from tvm_sparse.formats.lane_banks import LaneBanksFormat
from tvm_sparse.formats.tile_banks import TileBanksFormat
from tvm_sparse.numerics import FLOAT_SUMS
from tvm_sparse.ops.contraction import Contraction
from tvm_sparse.ops.cuda import mends, stream
from tvm_sparse.ops.cuda.balanced_weights import BalancedOperand
from tvm_sparse.ops.cuda.joint_weights import JointOperand
from tvm_sparse.ops.cuda.multiply import NEIGHBOURS, multiplier
from tvm_sparse.ops.cuda.tile import ThreadBlockTile, tiled
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.cuda import tile_choice as model
from tvm_sparse.selection.cuda.assumptions import (
    BANK_CLEAR,
    BANK_LOOKUP,
    BANK_PLACE,
    BANK_PRODUCT,
    ISSUED,
    Chip,
    chip,
)
from tvm_sparse.selection.cuda.option import Option

STREAM_ROWS = 8
"""Rows of activations up to which packed weights are streamed."""

EMPTY = 0.05
"""Fraction of empty tiles below which a table of the others is not worth its loads."""


def balanced(c: Contraction, scan: Scan, target: Target) -> Iterator[Option]:
    """Yield banks: streamed for few rows of activations, decoded on chip for more."""
    on, rows = chip(target), model.known_rows(c.lead)
    if rows <= STREAM_ROWS and plain(c) and all(isinstance(e, int) for e in c.lead):
        shared = int(target.attrs["max_shared_memory_per_block"])
        banks = LaneBanksFormat.of(scan.weight)
        banks = banks.words_beside() if mends.in_use().words_beside else banks
        option = _streamed(c, banks, on, shared)
        if option is not None:
            yield option
            return
    tile = model.choose_tile((rows, *c.matrix_shape), c.dtype, on)
    size = {"lanes": tile.features, "step": tile.columns, "apart": _apart(c)}
    storage = TileBanksFormat.of(scan.weight, **size)
    time = _decoded_seconds(c, storage, tile, on)
    weights, kernel = BalancedOperand(storage, tile), multiplier(c.numerics)
    yield Option("balanced", "tile", storage, 1.0, time, lambda: tiled(c, weights, tile, kernel))


def joint(c: Contraction, scan: Scan, target: Target) -> Iterator[Option | str]:
    """Yield the tiles that hold a nonzero, banks inside them, where some tiles are empty.

    The other ways to store a joint mask are options of their own: kept blocks dense (``block``) and
    all banks padded (``balanced``).
    """
    on, rows, (features, columns) = chip(target), model.known_rows(c.lead), c.matrix_shape
    best: tuple[float, KeptTilesFormat, ThreadBlockTile] | None = None
    step = model.choose_step(columns)
    for across in model.FEATURES:
        if most_kept(scan.block_counts(across, step) > 0) > (1 - EMPTY) * math.ceil(columns / step):
            continue
        storage = KeptTilesFormat.of(scan.weight, lanes=across, step=step, apart=_apart(c))
        size = (rows, features, storage.slots * step)
        tile = model.choose_tile(size, c.dtype, on, features=across, step=step)
        time = _decoded_seconds(c, storage.banks, tile, on)
        if best is None or time < best[0]:
            best = (time, storage, tile)
    if best is None:
        yield "joint: no tiles of the matrix are empty in every block of rows"
        return
    time, storage, tile = best
    weights, kernel = JointOperand(storage, tile), multiplier(c.numerics)
    work = storage.slots / storage.across
    yield Option("joint", "tile", storage, work, time, lambda: tiled(c, weights, tile, kernel))


def _apart(c: Contraction) -> int:
    """Return how the rows of a tile are stored, so that neighbouring threads read neighbours.

    A thread has neighbouring features, and their rows are :data:`NEIGHBOURS` apart.
    """
    scalars = c.dtype == FLOAT_SUMS
    return NEIGHBOURS if scalars and mends.in_use().lanes_apart else 1


def plain(c: Contraction) -> bool:
    """Whether every output row reads exactly one input row: a linear layer or 1x1 convolution."""
    return c.input_shape[:-1] == c.lead and math.prod(c.taps) == 1 and not c.borders


def _streamed(c: Contraction, s: LaneBanksFormat, on: Chip, shared: int) -> Option | None:
    """Return the stream of ``s``, or None where the activations do not fit on chip."""
    rows = math.prod(c.lead)
    staged = stream.staged_bytes(c, s)
    warps = stream.choose_warps(s.rows, on.sms, staged)
    if staged + stream.result_bytes(c, warps) > shared:
        return None
    slots = s.rows * stream.LANES * s.slots
    clocks = slots * (BANK_LOOKUP + BANK_PRODUCT * stream.padded_rows(rows)) / (ISSUED * on.sms)
    time = model.seconds(clocks, s.nbytes(c.dtype) / stream.EFFICIENCY, on)
    work = slots / math.prod(c.matrix_shape)
    return Option("balanced", "stream", s, work, time, lambda: stream.stream_balanced(c, s, warps))


def _decoded_seconds(c: Contraction, s: TileBanksFormat, tile: ThreadBlockTile, on: Chip) -> float:
    """Return the time of a product whose tiles of ``s`` are decoded on chip."""
    pieces = s.bank * model.item_bytes(c.dtype) / 16
    decoded = s.lanes * (s.step // s.bank)
    work = decoded * (pieces * BANK_CLEAR + s.keep * BANK_PLACE)
    size = (model.known_rows(c.lead), c.features, s.steps * s.step)
    clocks = model.tile_clocks(size, tile, c.dtype, on, per_step=work / ISSUED)
    return model.seconds(clocks, s.nbytes(c.dtype) + model.activation_bytes(c), on)
