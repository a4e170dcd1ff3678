"""When weights are worth keeping in half precision: few rows of input, and nothing lost."""

from __future__ import annotations

from dataclasses import replace

from tvm.target import Target

from tvm_sparse.base.numerics import HALVES
from tvm_sparse.formats.narrow import NarrowFormat, exact
from tvm_sparse.formats.offsets import OffsetFormat
from tvm_sparse.formats.protocol import ExactFormat, Format
from tvm_sparse.machine.engine.registry import engine_of, supported, tile_engine_of
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.patterns.scan import Scan

FEW_ROWS = 8
"""Rows of input up to which weights take longer to arrive than to be used."""


def narrowest(contraction: Contraction, scan: Scan, target: Target) -> Contraction:
    """Return ``contraction`` with the smallest type to store the weight in that loses nothing.

    Half precision if every value is exact in it and the input has few rows (symbolic extents count
    as one): a weight is then read once or a few times, and memory is the limit.
    """
    c = contraction
    if not c.numerics.floating or c.numerics.weight != c.numerics.accumulate or c.rows > FEW_ROWS:
        return c
    for half in HALVES:
        numerics = c.numerics.with_weights(half)
        if supported(numerics, target) and half in scan.once(_exact_halves):
            return replace(c, numerics=numerics)
    return c


def _exact_halves(scan: Scan) -> tuple[str, ...]:
    """Return the types that hold every value of the weight exactly."""
    return tuple(half for half in HALVES if exact(scan.weight, half))


def stored(
    format: ExactFormat, contraction: Contraction, target: Target, in_tiles: bool = False
) -> Format:
    """Return ``format`` as ``contraction`` reads it: values in half precision, or with offsets.

    Operators whose sums are made ``in_tiles`` add less to activations.
    """
    c = contraction
    if c.numerics.widens:
        return NarrowFormat(format, c.numerics.weight)
    engine = (tile_engine_of if in_tiles else engine_of)(c.numerics, target)
    if engine.corrects(c.zero_point):
        return OffsetFormat(format, c.features, c.zero_point + engine.shift)
    return format
