"""What it would cost to multiply compressed rows of a grouped convolution by shifts of planes."""

from __future__ import annotations

import math

from tvm.target import Target

from tvm_sparse.formats.compressed_rows import CompressedRowsFormat
from tvm_sparse.formats.shifted_rows import ShiftedRowsFormat
from tvm_sparse.machine.fitted import costs_of
from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.plane import Plane
from tvm_sparse.ops.contractions.shifted_rows import shifted_rows
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.candidate import Candidate
from tvm_sparse.selection.covers import covers
from tvm_sparse.selection.cpu.assumptions import COPIED, LOADS, SLOT, TRANSPOSED_IN, TRANSPOSED_OUT

VECTORS = 4
"""Vectors of positions for which a weight is loaded once."""

FEATURES, COLUMNS = 128, 1024
"""Most rows and columns of a tile of the weight."""


def shifted_candidate(contraction: Contraction, scan: Scan, target: Target) -> Candidate:
    """Return the candidate that keeps exactly the nonzeros of a grouped convolution's weight."""
    c = contraction
    plane = Plane(c, VECTORS)
    each = c.features // c.groups
    rows = next(r for r in range(min(each, FEATURES), 0, -LANES) if each % r == 0)
    inner = CompressedRowsFormat.of(
        scan.weight, tile_rows=rows, tile_cols=min(COLUMNS, c.matrix_shape[1])
    )
    format = ShiftedRowsFormat(inner, plane.step, plane.places)
    (cover,) = covers(scan, (1,), (1,))
    func = shifted_rows(c, format, target, VECTORS)
    return Candidate(
        "unstructured", format, func, cover.fraction, _penalty(c, plane, cover.fraction, target)
    )


def _penalty(c: Contraction, plane: Plane, fraction: float, target: Target) -> float:
    """Return the modelled cost of a multiply-add relative to dense.

    Positions without an output are multiplied too. Packing, turning and slots cost the same
    whatever is left of the weight.
    """
    outputs, columns = math.prod(c.lead), c.matrix_shape[1]
    idle = plane.tiles * VECTORS * LANES / outputs
    copy = TRANSPOSED_IN + COPIED * (len(plane.offsets) - 1)
    packed = math.prod(plane.phases) * plane.length * copy / (math.prod(c.taps) * outputs)
    fixed = packed * c.groups / c.features + idle * (TRANSPOSED_OUT + SLOT) / columns
    steps = idle * (1 + LOADS) + fixed / max(fraction, 1e-3)
    return steps * costs_of(target).rows
