"""A dense product that cuBLASLt computes where it is there, and a tile of ours elsewhere.

What is said of a library's candidates, and when they are asked, is here for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from tvm.target import Target

from tvm_sparse.base.numerics import bits_of
from tvm_sparse.machine.vector import SUM_BITS
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda import library
from tvm_sparse.ops.cuda.tile import ThreadBlockTile
from tvm_sparse.selection.candidate import Candidate
from tvm_sparse.selection.cuda import tile_choice as model
from tvm_sparse.selection.cuda.bank_options import plain
from tvm_sparse.selection.cuda.chip import MARGINS, Chip, chip
from tvm_sparse.selection.cuda.demand import seconds as tile_seconds
from tvm_sparse.selection.cuda.library_time import FASTER, dense_seconds
from tvm_sparse.selection.cuda.option import Option
from tvm_sparse.selection.cuda.tile_demand import Staging
from tvm_sparse.selection.cuda.tile_option import stored_demand
from tvm_sparse.selection.cuda.wgmma_option import fastest, matrix_options
from tvm_sparse_runtime.libraries import CUBLASLT, CUDNN, CUSPARSELT, LIBRARIES

FEW = 16
"""Rows of activations up to which a layer is ours: whoever computes it waits for its weights."""

MANY = 1 << 16
"""Rows at which a library must be faster, for a layer of open rows to be its own at all."""

TAKEN_FIRST = 1.001
"""How many times as fast as ours a layer of open rows counts as: no more than that it is taken."""

FAR = 2.6
"""How many times as long as cuBLAS cuBLASLt took in fp32, at most (on an H200, 16 to 256 rows). The
table has the faster of both. In 16 bits it is 1.33 at most, and 1 in the median."""

UNMEASURED = {
    CUDNN: "never measured alone",
    CUSPARSELT: "timed with one layer alone",
}
"""What is said of libraries that were not timed with layers of several sizes."""

VECTOR = 8
"""Columns and features are whole vectors of 16 bytes: what a library's fastest kernels want."""


def product(c: Contraction, target: Target) -> Option | None:
    """Return the layer as a library computes it, if it can.

    Its time is the library's, and that of one more kernel behind it, which reads and writes the
    result: whether what follows fits into the call is known only later. Where rows are open, few of
    them are ours, so the tile is that of our own kernel for few. On Hopper ours is by ``wgmma``
    where that is faster.
    """
    on = chip(target)
    if not fits(c, on):
        return None
    tile = _tile(c, on)
    own, least = _own_seconds(c, tile, on), 0 if model.is_known(c) else fewest(c, on)
    if least == MANY:
        return None
    format = library.one_matrix(c, tile)
    build = partial(library.product, c, format, tile, least)
    option = Option(CUBLASLT, CUBLASLT, format, 1.0, own, build, tile=tile)
    option = fastest(option, matrix_options(c, target))
    return replace(option, name=CUBLASLT, kernel=CUBLASLT, seconds=seconds(c, on), least=least)


def fewest(c: Contraction, on: Chip) -> int:
    """Return from how many rows on a library is clearly faster: of powers of two up to ``MANY``."""
    tile = _tile(c, on)

    def faster(rows: int) -> bool:
        such = replace(c, lead=(rows,))
        return _own_seconds(such, tile, on) >= clearly(c.dtype) * seconds(such, on)

    return first(faster, MANY, FEW)


def first(faster: Callable[[int], bool], many: int, few: int) -> int:
    """Return from which half, quarter, … of ``many`` above ``few`` on a library is ``faster``."""
    least = count = many
    while count > few and faster(count):
        least, count = count, count // 2
    return least


def _tile(c: Contraction, on: Chip) -> ThreadBlockTile:
    """Return the tile of our own branch; where rows are open, the best one for few of them."""
    few = replace(c, lead=(model.known_rows(c.lead),))
    return model.choose_tile(few, Staging(c.columns), on, whole=not model.is_known(c))


def _own_seconds(c: Contraction, tile: ThreadBlockTile, on: Chip) -> float:
    return tile_seconds(stored_demand(c, library.one_matrix(c, tile), tile, on), on)


def seconds(c: Contraction, on: Chip) -> float:
    """Return the modelled time of a library, and of a kernel behind it."""
    size = (model.known_rows(c.lead), *c.matrix_shape)
    return dense_seconds(size, c.dtype, on, on.library) + behind(c, on)


def behind(c: Contraction, on: Chip) -> float:
    """Return the seconds of one more kernel, which reads and writes the result."""
    nbytes = 2 * model.known_rows(c.lead) * c.features * model.item_bytes(c.dtype)
    return on.costs.launch + nbytes / on.bandwidth


def margin(c: Contraction, name: str, on: Chip) -> float:
    """Return how many times faster than our dense kernel a library must be modelled."""
    if not model.is_known(c):
        return 1.0
    if name == CUBLASLT or bits_of(c.dtype) == SUM_BITS:
        return clearly(c.dtype)
    return unclear(name, on)


def unclear(name: str, on: Chip) -> float:
    """Return how many times faster what is called ``name`` must be modelled than what is dense."""
    return on.margin if is_measured(name, on) else MARGINS[False]


def is_measured(name: str, on: Chip) -> bool:
    """Whether layers of several sizes by a library were timed on a chip."""
    known = {CUDNN: on.library.windows.measured, CUSPARSELT: on.library.quads.measured}
    return known.get(name, True)


def own_windows(c: Contraction, on: Chip) -> float:
    """Return how many times as long as modelled our convolution takes: 16 bits were measured."""
    return 1.0 if bits_of(c.dtype) == SUM_BITS else on.library.windows.ours


def clearly(dtype: str) -> float:
    """Return how many times faster cuBLASLt must be modelled, of known rows."""
    return FAR if bits_of(dtype) == SUM_BITS else FASTER


def candidate(
    c: Contraction, option: Option, ours: float, on: Chip, dense: float | None = None
) -> Candidate:
    """Return what a library computes as a candidate; ``ours`` are the seconds of our own kernel.

    ``dense`` are those of our dense one, if that is another. Times follow from measured ones, as
    far as there are any. A layer of open rows counts as a little faster than ours. One that is not
    clearly faster than ours counts as no faster than dense.
    """
    known, time = model.is_known(c), option.seconds
    name, least = LIBRARIES[option.name].name, margin(c, option.name, on)
    timed, counted = on.library.name, "items" if option.name == CUDNN else "rows"
    if option.name != CUBLASLT:
        timed = name if is_measured(option.name, on) else f"{UNMEASURED[option.name]}: {name}"
    if option.name == CUDNN and known:
        ours *= own_windows(c, on)
    theirs = f"{timed} and a kernel behind it {option.seconds * 1e6:.1f} us"
    told = f"where it is there ({theirs}, ours {ours * 1e6:.1f} us by the model)"
    if not known:
        told, time = f"from {option.least} {counted} on, where it is there", ours / TAKEN_FIRST
    dense = ours if dense is None else dense
    cost = time / dense if ours >= least * time or not known else max(1.0, time / dense)
    return Candidate(
        option.name,
        option.format,
        option.build(),
        option.work,
        cost / option.work,
        seconds=time,
        margin=least,
        own_seconds=ours,
        rival=f"by {name} {told}, by our own kernel elsewhere",
    )


def fits(c: Contraction, on: Chip) -> bool:
    """Whether ``c`` is one product of two matrices, in a known dtype, of more than a few rows."""
    many = not model.is_known(c) or math.prod(c.lead) > FEW
    whole = c.features % VECTOR == 0 and c.columns % VECTOR == 0
    simple = plain(c) and c.groups == 1 and not c.depthwise and not c.guarded
    there = c.dtype in on.library.parts
    return there and many and whole and simple
