"""The ways to store banks of nonzeros for NVIDIA GPUs, with modelled times."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from tvm.target import Target

from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.formats.kept_tiles import KeptTilesFormat, most_kept
from tvm_sparse.formats.lane_banks import LaneBanksFormat
from tvm_sparse.formats.tile_banks import TileBanksFormat
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda import mends
from tvm_sparse.ops.cuda.balanced_weights import BalancedOperand
from tvm_sparse.ops.cuda.joint_weights import JointOperand
from tvm_sparse.ops.cuda.multiply import NEIGHBOURS, multiplier
from tvm_sparse.ops.cuda.tile import ThreadBlockTile, tiled
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.cuda import tile_choice as model
from tvm_sparse.selection.cuda import wgmma_option
from tvm_sparse.selection.cuda.chip import chip
from tvm_sparse.selection.cuda.demand import seconds
from tvm_sparse.selection.cuda.option import Option
from tvm_sparse.selection.cuda.stream_option import streamed
from tvm_sparse.selection.cuda.tile_demand import staging_of
from tvm_sparse.selection.cuda.tile_option import stored_demand, tile_option
from tvm_sparse.selection.cuda.wgmma_option import fastest

STREAM_ROWS = 8
"""Rows of activations up to which packed weights are streamed."""

EMPTY = 0.05
"""Fraction of empty tiles below which a table of the others is not worth its loads."""


def balanced(c: Contraction, scan: Scan, target: Target) -> Iterator[Option]:
    """Yield banks: streamed for few rows of activations, decoded on chip for more."""
    on, rows = chip(target), model.known_rows(c.lead)
    few = rows <= STREAM_ROWS and all(isinstance(e, int) for e in c.lead)
    if few and plain(c) and c.numerics.floating:
        shared = int(target.attrs["max_shared_memory_per_block"])
        option = streamed(c, LaneBanksFormat.of(scan.weight), on, shared)
        if option is not None:
            yield option
            return
    # A bank and what it keeps do not depend on how many rows a tile has.
    step, apart = model.choose_step(c.matrix_shape[1], c.dtype), _apart(c)
    format = TileBanksFormat.of(scan.weight, lanes=model.FEATURES[0], step=step, apart=apart)
    tile = model.choose_tile(c, staging_of(format, c.dtype), on, step=step)
    format = replace(format, lanes=tile.features)
    weights, kernel = BalancedOperand(format, tile), multiplier(c.numerics)
    own = tile_option("balanced", format, tile, (c, on), lambda: tiled(c, weights, tile, kernel))
    yield fastest(own, wgmma_option.bank_options(c, scan, target, own.name))


def joint(c: Contraction, scan: Scan, target: Target) -> Iterator[Option | str]:
    """Yield the tiles that hold a nonzero, banks inside them, where some tiles are empty.

    The other ways to store a joint mask are options of their own: kept blocks dense (``block``) and
    all banks padded (``balanced``).
    """
    on, columns = chip(target), c.matrix_shape[1]
    best: tuple[float, KeptTilesFormat, ThreadBlockTile] | None = None
    step = model.choose_step(columns, c.dtype)
    for across in model.FEATURES:
        if most_kept(scan.block_counts(across, step) > 0) > (1 - EMPTY) * math.ceil(columns / step):
            continue
        format = KeptTilesFormat.of(scan.weight, lanes=across, step=step, apart=_apart(c))
        staging = staging_of(format, c.dtype)
        tile = model.choose_tile(c, staging, on, features=(across,), step=step)
        time = seconds(stored_demand(c, format, tile, on), on)
        if best is None or time < best[0]:
            best = (time, format, tile)
    if best is None:
        yield "joint: no tiles of the matrix are empty in every block of rows"
        return
    _, format, tile = best
    weights, kernel = JointOperand(format, tile), multiplier(c.numerics)
    work = format.slots / format.across
    own = tile_option(
        "joint", format, tile, (c, on), lambda: tiled(c, weights, tile, kernel), work=work
    )
    yield fastest(own, wgmma_option.bank_options(c, scan, target, own.name))


def _apart(c: Contraction) -> int:
    """Return how the rows of a tile are stored, so that neighbouring threads read neighbours.

    A thread has neighbouring features, and their rows are :data:`NEIGHBOURS` apart.
    """
    scalars = c.dtype == FLOAT_SUMS
    return NEIGHBOURS if scalars and mends.in_use().lanes_apart else 1


def plain(c: Contraction) -> bool:
    """Whether every output row reads exactly one input row: a linear layer or 1x1 convolution."""
    return c.input_shape[:-1] == c.lead and math.prod(c.taps) == 1 and not c.borders
