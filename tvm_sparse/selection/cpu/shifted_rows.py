"""Ways to multiply by shifts of planes, lanes along pixels, and what they would cost."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tvm.target import Target

from tvm_sparse.formats.compressed_rows import CompressedRowsFormat
from tvm_sparse.machine.engine.registry import supported_singly
from tvm_sparse.machine.fitted import costs_of
from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.packed_parts import PackedParts
from tvm_sparse.ops.contractions.shifted_rows import packed_parts, shifted_format, shifted_rows
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.candidate import Candidate
from tvm_sparse.selection.covers import covers
from tvm_sparse.selection.cpu.assumptions import COPIED, LOADS, SLOT, TRANSPOSED_IN, TRANSPOSED_OUT
from tvm_sparse.selection.narrow import stored

VECTORS = 4
"""Vectors of positions for which a weight is loaded once."""

CLEARLY = 0.85
"""Modelled cost over the plain direct sum's up to which shifts of all weights are looked at."""

FEATURES, COLUMNS = 128, 1024
"""Most rows and columns of a tile of the weight."""


def few_features(c: Contraction) -> bool:
    """Whether transposing the pixels of every tap anew takes longer than multiplying them.

    With strides or more features it does not: see the notebook of CPU operators.
    """
    few = c.groups == 1 and c.features <= LANES
    return few and math.prod(c.taps) > 1 == max(c.strides) and PackedParts.of(c) is not None


def shifted_candidate(contraction: Contraction, scan: Scan, target: Target) -> Candidate:
    """Return the candidate that keeps exactly the nonzeros of a grouped convolution's weight."""
    c = contraction
    each = c.features // c.groups
    rows = next((r for r in range(min(each, FEATURES), 0, -LANES) if each % r == 0), each)
    rows = LANES * math.ceil(rows / LANES)
    inner = CompressedRowsFormat.of(
        scan.weight, tile_rows=rows, tile_cols=min(COLUMNS, c.matrix_shape[1])
    )
    (cover,) = covers(scan, (1,), (1,))
    penalty = _penalty(c, cover.fraction, target)
    return _candidate("unstructured", c, inner, (cover.fraction, penalty), target)


def shifted_dense(contraction: Contraction, target: Target) -> Iterator[Candidate]:
    """Yield the direct sum by shifts, where the plain one would leave most of its lanes idle."""
    c = contraction
    if not few_features(c) or c.guarded or c.depthwise or not supported_singly(c.numerics, target):
        return
    penalty = _penalty(c, 1.0, target)
    if penalty <= CLEARLY:
        inner = CompressedRowsFormat.whole(*c.matrix_shape, LANES)
        yield _candidate("shifts", c, inner, (1.0, penalty), target)


def _candidate(
    name: str,
    c: Contraction,
    inner: CompressedRowsFormat,
    cost: tuple[float, float],
    target: Target,
) -> Candidate:
    """Return the candidate that stores ``inner`` by where pixels are packed."""
    format = shifted_format(c, inner, VECTORS)
    func = shifted_rows(c, format, target, VECTORS)
    return Candidate(name, stored(format, c, target), func, *cost)


def _penalty(c: Contraction, fraction: float, target: Target) -> float:
    """Return the modelled cost of a multiply-add relative to dense.

    Positions without an output are multiplied too. Packing, turning and slots cost the same
    whatever is left of the weight. Of several parts each costs the same.
    """
    plane = packed_parts(c).plane(VECTORS)
    outputs, columns = math.prod(plane.c.lead), c.matrix_shape[1]
    idle = plane.tiles * VECTORS * LANES / outputs
    copy = TRANSPOSED_IN + COPIED * (len(plane.offsets) - 1)
    packed = math.prod(plane.phases) * plane.length * copy / (math.prod(c.taps) * outputs)
    fixed = packed * c.groups / c.features + idle * (TRANSPOSED_OUT + SLOT) / columns
    features = c.features // c.groups
    idle *= features / (LANES * math.ceil(features / LANES))  # the dense operator has idle lanes
    steps = idle * (1 + LOADS) + fixed / max(fraction, 1e-3)
    return steps * costs_of(target).rows
