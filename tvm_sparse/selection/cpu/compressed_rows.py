"""How to store a matrix with zeros anywhere, and what that would cost."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tvm import tirx
from tvm.sym import Analyzer
from tvm.target import Target

from tvm_sparse.formats.compressed_rows import CompressedRowsFormat
from tvm_sparse.machine.engine.registry import supported_singly
from tvm_sparse.machine.fitted import costs_of
from tvm_sparse.machine.registry import machine_of
from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.contractions.compressed_rows import compressed_rows
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.packed_parts import PackedParts
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.candidate import Candidate
from tvm_sparse.selection.covers import Cover, covers
from tvm_sparse.selection.cpu.assumptions import (
    GROUP_POWER,
    ROW_LOADS,
    RUN_LOADS,
    SHIFTED_GAIN,
    SLOT,
    TRANSPOSED_IN,
    TRANSPOSED_OUT,
    VECTOR_LOADS,
    VECTOR_LOOP,
)
from tvm_sparse.selection.cpu.shifted_rows import few_features, shifted_candidate
from tvm_sparse.selection.narrow import stored

ACCUMULATORS = 16
"""Vectors of sums that a tile has at most."""

TILES = ((0.2, 1), (0.08, 2), (0.0, 4))
"""Least density, and first caches that a column tile of activations fills: long loops where weights
are few, activations in the first cache where they are many."""

VERY_SPARSE = 0.08
"""Density below which fewer vectors and more columns are better: longer loops once more."""

FEATURES = 128
COLUMNS = 1024
"""Extents of tiles of rows, and of columns where several rows share them."""


def unstructured_candidates(
    contraction: Contraction, scan: Scan, target: Target
) -> Iterator[Candidate | str]:
    """Yield the format that keeps exactly the nonzeros of a weight."""
    c = contraction
    if c.depthwise:
        return
    if not supported_singly(c.numerics, target):
        yield f"unstructured has one column a lane, {c.dtype} several: see balanced and joint"
        return
    (cover,) = covers(scan, (1,), (1,))
    shifted = shifted_candidate(c, scan, target) if few_features(c) else None
    if c.columns < LANES:
        yield shifted or f"unstructured needs {LANES} columns a tap, found {c.columns}"
        return
    if c.groups > 1:
        if PackedParts.of(c) is not None:
            yield shifted_candidate(c, scan, target)
        else:
            yield "unstructured needs at most one open axis where a convolution has groups"
        return
    if not batch_in_lanes(c):
        yield f"unstructured needs a static batch, or {LANES} rows (or most odd counts) in each"
        return
    rows = compressed_candidate("unstructured", c, scan, cover, target)
    yield shifted if shifted and shifted.cost < SHIFTED_GAIN * rows.cost else rows


def compressed_candidate(
    name: str, contraction: Contraction, scan: Scan, cover: Cover, target: Target
) -> Candidate:
    """Return the candidate with lanes along the batch for runs and groups of ``cover``."""
    rows, columns = scan.weight.shape
    vectors = batch_vectors(contraction, cover, target)
    format = CompressedRowsFormat.of(
        scan.weight,
        group=cover.group,
        run=cover.run,
        tile_rows=min(FEATURES, LANES * math.ceil(rows / LANES)) if cover.group < 4 else LANES,
        tile_cols=min(tile_columns(cover, vectors, target), columns),
    )
    func = compressed_rows(contraction, format, target, vectors)
    penalty = rows_penalty(contraction, cover, vectors, target)
    held = stored(format, contraction, target)
    return Candidate(name, held, func, cover.fraction, penalty, nest="lanes along the batch")


def batch_in_lanes(contraction: Contraction, vectors: int = 1) -> bool:
    """Whether TVM can prove that tiles of ``vectors`` cover a symbolic number of output rows.

    ``ceil(8 n / 16)`` is simplified to a form whose bounds it no longer finds, so is
    ``ceil(15 n / 16)``. Schedules need the proof: what reads rows lies in the loop of their tile.
    Computed extents are variables when functions are scheduled (``PlainExtents``).
    """
    known = (int, tirx.IntImm, tirx.Var)
    lead = [e if isinstance(e, known) else tirx.Var("n", "int64") for e in contraction.lead]
    rows, span = math.prod(lead), vectors * LANES
    if isinstance(rows, int):
        return True
    return bool(Analyzer().can_prove(tirx.ceildiv(rows, span) * span - rows >= 0))


def rows_penalty(contraction: Contraction, cover: Cover, vectors: int, target: Target) -> float:
    """Return the modelled cost of a multiply-add with lanes along the batch, relative to dense.

    Vectors share loads of weights, rows of a group those of activations, weights of an entry its
    position. Transpositions and slots cost the same whatever is left of the matrix. Lanes of the
    last tile are idle.
    """
    features, columns = contraction.matrix_shape
    batch = contraction.rows
    idle = math.ceil(batch / (LANES * vectors)) * LANES * vectors / batch
    slot = SLOT / (tile_columns(cover, vectors, target) * min(cover.group, 4))
    fixed = TRANSPOSED_IN / features + TRANSPOSED_OUT / columns + slot
    loads = (ROW_LOADS + VECTOR_LOADS / vectors) / cover.group**GROUP_POWER
    loads += RUN_LOADS / (cover.group * cover.run)
    steps = 1 + loads + fixed / max(cover.fraction, 1e-3)
    return idle * steps * costs_of(target).rows


def tile_columns(cover: Cover, vectors: int, target: Target) -> int:
    """Return the columns of a tile."""
    if cover.group > 1:
        return COLUMNS
    room = next(room for density, room in TILES if cover.fraction >= density)
    room *= machine_of(target).caches.first
    return room // (4 * LANES * vectors)


def batch_vectors(contraction: Contraction, cover: Cover, target: Target) -> int:
    """Return the vectors of the batch for which a weight is loaded once.

    Several rows share each load of activations, so they need no more; a single row wants four,
    fewer if it has few weights, or where the last tile would be mostly idle, or where cores would.
    """
    if cover.group > 2:
        return 1
    vectors = math.ceil(contraction.rows / LANES)
    cores = int(target.attrs.get("num-cores", 1))
    most = 2 if cover.group == 1 and cover.fraction < VERY_SPARSE else 4
    most = min(most, ACCUMULATORS // cover.group, max(1, vectors // cores))
    fit = [v for v in range(1, most + 1) if batch_in_lanes(contraction, v)]
    return min(fit, key=lambda v: math.ceil(vectors / v) * (VECTOR_LOOP + v))
