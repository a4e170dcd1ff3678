"""What it would cost to multiply compressed rows of a convolution that is channels first."""

from __future__ import annotations

import math

from tvm.target import Target

from tvm_sparse.formats.compressed_rows import CompressedRowsFormat
from tvm_sparse.formats.shifted_rows import ShiftedRowsFormat
from tvm_sparse.machine.fitted import costs_of
from tvm_sparse.machine.registry import machine_of
from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.plane import Plane
from tvm_sparse.ops.contractions.planes import plane_of, planes, planes_shapes
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.candidate import Candidate
from tvm_sparse.selection.covers import covers
from tvm_sparse.selection.cpu.assumptions import (
    COPIED,
    LOADS,
    SLOT,
    STORED,
    TRANSPOSED_IN,
    TRANSPOSED_OUT,
)

VECTORS = range(1, 9)
"""Vectors of positions for which a weight is loaded once."""

FEATURES, COLUMNS = 32, 1024
"""Most rows and columns of a tile of the weight."""


def planes_candidate(
    contraction: Contraction, scan: Scan, target: Target, skips_transpose: bool = True
) -> Candidate:
    """Return the candidate that keeps exactly the nonzeros; ``contraction`` has its own borders.

    ``skips_transpose`` says that others are transposed behind it, and this one is not.
    """
    c = contraction
    vectors = min(VECTORS, key=lambda v: (plane_of(c, v).tiles * (v + 1), v))
    plane, each = plane_of(c, vectors), c.features // c.groups
    inner = CompressedRowsFormat.of(
        scan.weight,
        tile_rows=next(r for r in range(min(each, FEATURES), 0, -1) if each % r == 0),
        tile_cols=min(_tile_columns(c, vectors, target), c.matrix_shape[1]),
    )
    format = ShiftedRowsFormat(inner, plane.step, plane.places)
    (cover,) = covers(scan, (1,), (1,))
    penalty = _penalty(c, plane, vectors, cover.fraction, skips_transpose) * costs_of(target).rows
    func = planes(c, format, target, vectors)
    return Candidate("unstructured", format, func, cover.fraction, penalty, planes=c)


def _tile_columns(c: Contraction, vectors: int, target: Target) -> int:
    """Return the columns of a tile: those of a group, or as many as the first cache holds."""
    return COLUMNS if c.groups > 1 else machine_of(target).caches.first // (4 * LANES * vectors)


def _penalty(
    c: Contraction, plane: Plane, vectors: int, fraction: float, skips_transpose: bool
) -> float:
    """Return the modelled cost of a multiply-add relative to dense and its transpositions."""
    outputs, columns = math.prod(c.lead), c.matrix_shape[1]
    inputs, results = map(math.prod, planes_shapes(c))
    turned = (TRANSPOSED_IN * inputs / results + TRANSPOSED_OUT * skips_transpose) / columns
    idle = plane.tiles * vectors * LANES / outputs
    copied = plane.step * COPIED / (math.prod(c.taps) * outputs)
    fixed = copied * c.groups / c.features + idle * (STORED + SLOT / vectors) / columns
    return (idle * (1 + LOADS) + fixed / max(fraction, 1e-3)) / (1 + turned)
