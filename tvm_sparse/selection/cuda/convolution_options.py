"""A convolution that cuDNN computes where it is there, and a tile of ours elsewhere."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tvm.target import Target

from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda import library
from tvm_sparse.ops.cuda.tile import ThreadBlockTile
from tvm_sparse.selection.cuda import tile_choice as model
from tvm_sparse.selection.cuda.bank_options import plain
from tvm_sparse.selection.cuda.chip import Chip, chip
from tvm_sparse.selection.cuda.demand import seconds as tile_seconds
from tvm_sparse.selection.cuda.library_options import (
    FEW,
    VECTOR,
    behind,
    first,
    margin,
    own_windows,
)
from tvm_sparse.selection.cuda.library_time import convolution_seconds
from tvm_sparse.selection.cuda.option import Option
from tvm_sparse.selection.cuda.tile_demand import Staging
from tvm_sparse.selection.cuda.tile_option import stored_demand
from tvm_sparse_runtime.libraries import CUDNN

MANY = 1 << 10
"""Items at which cuDNN must be faster, for a layer of an open batch to be its own at all."""


def convolution(c: Contraction, target: Target) -> Option | None:
    """Return the convolution as cuDNN computes it, if it can.

    Its time is modelled, with one more kernel behind it: whether what follows fits into the call is
    known only later. Where the batch is open, few items are ours, so the tile is the best one for a
    single item.
    """
    on = chip(target)
    if not fits(c, on):
        return None
    format, known = library.rows(c), model.is_known(c)
    few = c if known else replace(c, lead=(1, *c.lead[1:]))
    tile = model.choose_tile(few, Staging(c.matrix_shape[1]), on, whole=not known)
    least = 0 if known else fewest(c, tile, on)
    if least == MANY:
        return None
    build = partial(library.convolution, c, format, tile, least)
    return Option(CUDNN, CUDNN, format, 1.0, seconds(c, on), build, tile=tile, least=least)


def fewest(c: Contraction, tile: ThreadBlockTile, on: Chip) -> int:
    """Return from how many items on cuDNN is clearly faster: of powers of two up to ``MANY``."""

    def faster(items: int) -> bool:
        such = replace(c, lead=(items, *c.lead[1:]))
        ours = own_windows(c, on) * _own_seconds(such, tile, on)
        return ours >= margin(such, CUDNN, on) * seconds(such, on)

    return first(faster, MANY, 0)


def _own_seconds(c: Contraction, tile: ThreadBlockTile, on: Chip) -> float:
    return tile_seconds(stored_demand(c, library.rows(c), tile, on), on)


def seconds(c: Contraction, on: Chip) -> float:
    """Return the modelled time of cuDNN, and of a kernel behind it."""
    return convolution_seconds(c, on) + behind(c, on)


def fits(c: Contraction, on: Chip) -> bool:
    """Whether ``c`` has windows on a line or a plane, one group, and borders as cuDNN has them."""
    if not 1 <= len(c.taps) <= 2 or plain(c) or not c.positions:
        return False
    simple = c.groups == 1 and not c.depthwise and not c.guarded and not c.zero_point
    many = not model.is_known(c) or model.known_rows(c.lead) > FEW
    whole = c.features % VECTOR == 0 and c.dtype in on.library.parts
    return simple and many and whole and _even_borders(c)


def _even_borders(c: Contraction) -> bool:
    """Whether a border before each axis, and as many zeros behind, give just this output."""
    borders = c.borders or (0,) * len(c.taps)
    axes = zip(
        c.lead[-len(c.taps) :], c.padded, borders, c.taps, c.strides, c.dilation, strict=True
    )
    return all((n + 2 * b - d * (k - 1) - 1) // s + 1 == out for out, n, b, k, s, d in axes)
