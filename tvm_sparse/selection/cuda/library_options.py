"""A dense product that cuBLASLt computes where it is there, and a tile of ours elsewhere."""

from __future__ import annotations

import math
from functools import partial

from tvm.target import Target

from tvm_sparse.base.numerics import bits_of
from tvm_sparse.machine.vector import SUM_BITS
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda import library
from tvm_sparse.selection.candidate import Candidate
from tvm_sparse.selection.cuda import tile_choice as model
from tvm_sparse.selection.cuda.bank_options import plain
from tvm_sparse.selection.cuda.chip import Chip, chip
from tvm_sparse.selection.cuda.library_time import FASTER, dense_seconds
from tvm_sparse.selection.cuda.option import Option
from tvm_sparse.selection.cuda.tile_demand import Staging
from tvm_sparse_runtime.libraries import CUBLASLT

FEW = 16
"""Rows of activations up to which a layer is ours: whoever computes it waits for its weights."""

FAR = 2.6
"""How many times as long as cuBLAS cuBLASLt took in fp32, at most (on an H200, 16 to 256 rows). The
table has the faster of both. In 16 bits it is 1.33 at most, and 1 in the median."""

VECTOR = 8
"""Columns and features are whole vectors of 16 bytes: what a library's fastest kernels want."""


def product(c: Contraction, target: Target) -> Option | None:
    """Return the layer as a library computes it, if it can; extents must be known.

    Its time is the library's, and that of one more kernel behind it, which reads and writes the
    result: whether what follows fits into the call is known only later.
    """
    on = chip(target)
    if not fits(c, on):
        return None
    tile = model.choose_tile(c, Staging(c.columns), on)
    format, size = library.one_matrix(c, tile), (model.known_rows(c.lead), *c.matrix_shape)
    time = dense_seconds(size, c.dtype, on, on.library) + behind(c, on)
    build = partial(library.product, c, format, tile)
    return Option(CUBLASLT, CUBLASLT, format, 1.0, time, build, tile=tile)


def behind(c: Contraction, on: Chip) -> float:
    """Return the seconds of one more kernel, which reads and writes the result."""
    nbytes = 2 * model.known_rows(c.lead) * c.features * model.item_bytes(c.dtype)
    return on.costs.launch + nbytes / on.bandwidth


def margin(dtype: str) -> float:
    """Return how many times faster than our dense kernel a library must be modelled."""
    return FAR if bits_of(dtype) == SUM_BITS else FASTER


def candidate(c: Contraction, option: Option, ours: float, on: Chip) -> Candidate:
    """Return a library's product as a candidate; ``ours`` are the seconds of our own."""
    theirs = f"{on.library.name} and a kernel behind it {option.seconds * 1e6:.1f} us"
    told = f"{theirs}, ours {ours * 1e6:.1f} us"
    return Candidate(
        option.name,
        option.format,
        option.build(),
        option.work,
        option.seconds / ours,
        seconds=option.seconds,
        margin=margin(c.dtype),
        rival=f"by cuBLASLt where it is there ({told} by the model), by our own kernel elsewhere",
    )


def fits(c: Contraction, on: Chip) -> bool:
    """Whether ``c`` is one product of two matrices, of sizes that are known, in a known dtype."""
    known = all(isinstance(extent, int) for extent in c.lead)
    whole = c.features % VECTOR == 0 and c.columns % VECTOR == 0
    simple = plain(c) and c.groups == 1 and not c.depthwise and not c.guarded
    there = c.dtype in on.library.parts
    return there and known and whole and simple and math.prod(c.lead) > FEW
