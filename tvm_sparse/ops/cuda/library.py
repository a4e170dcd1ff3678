"""Products and convolutions that a library may compute: stored as it and ours read them."""

from __future__ import annotations

import tvm_ffi
from tvm import s_tir, tirx

from tvm_sparse.formats.dense import DenseFormat
from tvm_sparse.formats.two_four import TwoFourFormat
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda.dense_weights import DenseOperand, DenseRows
from tvm_sparse.ops.cuda.multiply import multiplier
from tvm_sparse.ops.cuda.tile import ThreadBlockTile, round_up, tiled
from tvm_sparse.ops.cuda.two_four import SparseTensorCore, TwoFourOperand
from tvm_sparse.ops.cuda.wgmma import WgmmaTile, wgmma_matrix
from tvm_sparse.ops.emit import changed_block
from tvm_sparse.ops.marks import LIBRARY

STORE = "store"
"""Name of the block that writes the result of a tiled product."""

LINEAR, CONVOLUTION = "tvm_sparse.blas.linear", "tvm_sparse.dnn.convolution"
TWO_FOUR = "tvm_sparse.two_four.linear"
"""The runtime's functions (``python/native/src/blas.h``, ``dnn.h`` and ``two_four.h``)."""


def one_matrix(c: Contraction, tile: ThreadBlockTile) -> DenseFormat:
    """Return the format whose array is one matrix ``(columns, features)``, rows filled up."""
    return DenseFormat(*c.matrix_shape, lanes=int(round_up(c.features, tile.features)))


def rows(c: Contraction) -> DenseFormat:
    """Return the format whose array is one matrix ``(features, columns)``."""
    return DenseFormat(*c.matrix_shape, lanes=1)


def product(
    c: Contraction, format: DenseFormat, tile: ThreadBlockTile, least: int = 0
) -> tirx.PrimFunc:
    """Return our tiled product ``f(X, V, Y)`` with a mark that says what a library needs to know.

    Each output row of ``c`` reads one input row. A library is asked from ``least`` rows on.
    """
    func = tiled(c, DenseOperand(format, tile), tile, multiplier(c.numerics))
    return _asking(func, c, format, least)


def wgmma_product(c: Contraction, format: DenseFormat, tile: WgmmaTile) -> tirx.PrimFunc:
    """Return the same by ``wgmma``, of known rows: a library is always asked."""
    return _asking(wgmma_matrix(c, format, tile), c, format, 0)


def convolution(
    c: Contraction, format: DenseFormat, tile: ThreadBlockTile, least: int = 0
) -> tirx.PrimFunc:
    """Return our tiled convolution ``f(X, V, Y)`` with such a mark; it has one or two spatial axes.

    The library puts equal borders on both sides of an axis. It is asked from ``least`` items on.
    """
    func = tiled(c, DenseRows(format, tile), tile, multiplier(c.numerics))
    more = (1,) * (2 - len(c.taps))  # a line is a plane of one row
    none = (0,) * (2 - len(c.taps))
    borders = c.borders or (0,) * len(c.taps)
    sizes = (*more, *c.padded, c.columns, c.features, *more, *c.taps, *none, *borders)
    numbers = [*sizes, *more, *c.strides, *more, *c.dilation]
    return _marked(func, CONVOLUTION, numbers, planes=len(c.taps), least=least)


def two_four(
    c: Contraction, format: TwoFourFormat, tile: ThreadBlockTile, least: int = 0
) -> tirx.PrimFunc:
    """Return our product of 2:4 weights ``f(X, V, I, Y)`` with such a mark.

    The library reads the weights in a form of its own, which is made of ours when a program begins.
    """
    func = tiled(c, TwoFourOperand(format, tile), tile, SparseTensorCore())
    numbers = [c.features, c.columns]
    return _marked(func, TWO_FOUR, numbers, least=least, tiles=(format.lanes, format.step))


def _asking(func: tirx.PrimFunc, c: Contraction, format: DenseFormat, least: int) -> tirx.PrimFunc:
    return _marked(func, LINEAR, [c.features, c.columns, format.lanes], least=least)


def _marked(
    func: tirx.PrimFunc,
    function: str,
    numbers: list[int],
    *,
    planes: int = 0,
    least: int = 0,
    tiles: tuple[int, ...] = (),
) -> tirx.PrimFunc:
    """Return ``func`` with the mark."""
    mark = {"function": function, "numbers": numbers, "planes": planes, "least": least}
    mark["tiles"] = list(tiles)

    def marked(block: s_tir.SBlock) -> s_tir.SBlock:
        if block.name_hint != STORE:
            return block
        return changed_block(block, annotations={**dict(block.annotations), LIBRARY: mark})

    body = tvm_ffi.structural_map(func.body, (s_tir.SBlock, marked))
    return tirx.PrimFunc(func.params, body, func.ret_type, attrs=func.attrs)
