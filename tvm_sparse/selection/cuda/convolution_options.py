"""A convolution that cuDNN computes where it is there, and a tile of ours elsewhere."""

from __future__ import annotations

from functools import partial

from tvm.target import Target

from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda import library
from tvm_sparse.selection.cuda import tile_choice as model
from tvm_sparse.selection.cuda.bank_options import plain
from tvm_sparse.selection.cuda.chip import Chip, chip
from tvm_sparse.selection.cuda.library_options import FEW, VECTOR, behind
from tvm_sparse.selection.cuda.library_time import convolution_seconds
from tvm_sparse.selection.cuda.option import Option
from tvm_sparse.selection.cuda.tile_demand import Staging
from tvm_sparse_runtime.libraries import CUDNN


def convolution(c: Contraction, target: Target) -> Option | None:
    """Return the convolution as cuDNN computes it, if it can.

    Its time is modelled, with one more kernel behind it: whether what follows fits into the call is
    known only later.
    """
    on = chip(target)
    if not fits(c, on):
        return None
    format = library.rows(c)
    tile = model.choose_tile(c, Staging(c.matrix_shape[1]), on)
    build = partial(library.convolution, c, format, tile)
    return Option(CUDNN, CUDNN, format, 1.0, seconds(c, on), build, tile=tile)


def seconds(c: Contraction, on: Chip) -> float:
    """Return the modelled time of cuDNN, and of a kernel behind it."""
    return convolution_seconds(c, on) + behind(c, on)


def fits(c: Contraction, on: Chip) -> bool:
    """Whether ``c`` has windows on a line or a plane, one group, and borders as cuDNN has them."""
    if not 1 <= len(c.taps) <= 2 or plain(c) or not model.is_known(c):
        return False
    simple = c.groups == 1 and not c.depthwise and not c.guarded and not c.zero_point
    many = model.known_rows(c.lead) > FEW and c.features % VECTOR == 0
    return simple and many and c.dtype in on.library.parts and _even_borders(c)


def _even_borders(c: Contraction) -> bool:
    """Whether a border before each axis, and as many zeros behind, give just this output."""
    borders = c.borders or (0,) * len(c.taps)
    axes = zip(
        c.lead[-len(c.taps) :], c.padded, borders, c.taps, c.strides, c.dilation, strict=True
    )
    return all((n + 2 * b - d * (k - 1) - 1) // s + 1 == out for out, n, b, k, s, d in axes)
