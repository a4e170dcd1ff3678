"""A 2:4 product that cuSPARSELt computes where it is there, and a tile of ours elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from tvm.target import Target

from tvm_sparse.formats.two_four import KEEP, TwoFourFormat
from tvm_sparse.machine.vector import SUM_BITS
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda import library
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.candidate import Candidate
from tvm_sparse.selection.cuda import library_options as shared
from tvm_sparse.selection.cuda import options
from tvm_sparse.selection.cuda import tile_choice as model
from tvm_sparse.selection.cuda.chip import Chip, chip
from tvm_sparse.selection.cuda.demand import seconds as tile_seconds
from tvm_sparse.selection.cuda.library_time import two_four_seconds
from tvm_sparse.selection.cuda.option import Option
from tvm_sparse.selection.cuda.tile_option import stored_demand
from tvm_sparse_runtime.libraries import CUSPARSELT

VECTOR = 16
"""Features and columns of which the library takes multiples."""


def candidates(c: Contraction, scan: Scan, target: Target) -> Iterator[Candidate]:
    """Yield the product as cuSPARSELt computes it, if it can."""
    on = chip(target)
    if not fits(c, on) or TwoFourFormat.most(scan.weight) > KEEP:
        return
    option = product(c, target)
    if option is not None:
        ours = [way for way in options.two_four(c, scan, target) if isinstance(way, Option)]
        least = min(way.seconds for way in ours)
        yield shared.candidate(c, option, least, on, options.dense(c, target).seconds)


def product(c: Contraction, target: Target) -> Option | None:
    """Return the layer as the library computes it; None if it never is faster.

    Its time is the library's, and that of one more kernel behind it. Where rows are open, few of
    them are ours, so the tile is the best one for few. Ours is by ``mma.sp``, on Hopper, too.
    """
    on, known = chip(target), model.is_known(c)
    few = c if known else replace(c, lead=(model.known_rows(c.lead),))
    format, tile = options.quads(few, on, whole=not known)
    least = 0 if known else fewest(c, target)
    if least == shared.MANY:
        return None
    build = partial(library.two_four, c, format, tile, least)
    return Option(
        CUSPARSELT, CUSPARSELT, format, 0.5, seconds(c, on), build, tile=tile, least=least
    )


def fewest(c: Contraction, target: Target) -> int:
    """Return from how many rows on the library is clearly faster: powers of two up to ``MANY``."""
    on = chip(target)
    format, tile = options.quads(replace(c, lead=(model.known_rows(c.lead),)), on, whole=True)

    def faster(rows: int) -> bool:
        such = replace(c, lead=(rows,))
        ours = tile_seconds(stored_demand(such, format, tile, on), on)
        # One row more is a second product, of the last eight.
        theirs = seconds(replace(c, lead=(rows + 1,)), on)
        return ours >= shared.margin(such, CUSPARSELT, on) * theirs

    return shared.first(faster, shared.MANY, shared.FEW)


def seconds(c: Contraction, on: Chip) -> float:
    """Return the modelled time of the library, and of a kernel behind it."""
    size = (model.known_rows(c.lead), c.features, c.columns)
    return two_four_seconds(size, c.dtype, on) + shared.behind(c, on)


def fits(c: Contraction, on: Chip) -> bool:
    """Whether ``c`` is one product of 16-bit numbers whose sizes the library takes."""
    whole = c.features % VECTOR == 0 and c.columns % VECTOR == 0
    return c.numerics.bits < SUM_BITS and whole and shared.fits(c, on)
