"""How to store a matrix whose rows share single columns, and what that would cost."""

from __future__ import annotations

import math

from tvm.target import Target

from tvm_sparse.engine.registry import engine_of
from tvm_sparse.formats.shared_columns import SharedColumnsFormat
from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.contraction import Contraction
from tvm_sparse.ops.shared_columns import shared_columns
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.candidate import Candidate
from tvm_sparse.selection.covers import Cover, covers
from tvm_sparse.selection.cpu.compressed_rows import batch_in_lanes, output_rows
from tvm_sparse.selection.narrow import stored

VECTORS = 4
"""Most vectors of output rows of a tile: what is gathered then fits the first cache."""

TASKS = 2
"""Tiles of rows for each of several cores."""

PACK = 3.5
"""Multiply-adds of a vector that it takes to transpose as many activations as one multiplies."""

GATHER = 0.25
"""Multiply-adds that it takes to gather the activations of one, for one vector of features."""


def shared_candidate(
    name: str, c: Contraction, scan: Scan, groups: tuple[int, ...], target: Target
) -> Candidate | None:
    """Return the storage in which ``groups`` of rows share columns, or ``None`` if none fits.

    It is for numbers of which a lane takes several columns: others share single columns as they do
    blocks.
    """
    engine = engine_of(c.numerics, target)
    small = min(c.columns, output_rows(c)) < LANES
    if engine.depth == 1 or c.groups > 1 or small or not batch_in_lanes(c):
        return None
    vectors = tile_vectors(c, target)
    cover = min(
        covers(scan, groups, (1,)), key=lambda k: k.fraction * _penalty(c, k, vectors, engine.depth)
    )
    storage = SharedColumnsFormat.of(scan.weight, group=cover.group, depth=engine.depth)
    func = shared_columns(c, storage, target, vectors)
    work = storage.entries * storage.depth * storage.group / scan.cells
    penalty = _penalty(c, cover, vectors, engine.depth)
    return Candidate(name, stored(storage, c, target), func, work, penalty, nest="shared columns")


def tile_vectors(c: Contraction, target: Target) -> int:
    """Return the vectors of a tile of output rows: few enough for all cores, and hardly any idle.

    Each tile reads all weights. Several cores want :data:`TASKS` tiles each: two tiles of 64 rows
    took two threads as long as one, four of 32 rows 0.58 of it.
    """
    vectors = math.ceil(output_rows(c) / LANES)
    cores = int(target.attrs.get("num-cores", 1))
    most = min(VECTORS, max(1, vectors // (TASKS * cores if cores > 1 else 1)))
    return min(range(1, most + 1), key=lambda v: math.ceil(vectors / v) * (v + 0.1))


def _penalty(c: Contraction, cover: Cover, vectors: int, depth: int) -> float:
    """Return the modelled cost of a multiply-add, relative to dense.

    Vectors of a group share what is gathered; transpositions cost the same whatever is left of the
    matrix. Lanes of the last tile are idle.
    """
    rows, span = output_rows(c), LANES * vectors
    idle = math.ceil(rows / span) * span / rows
    pack = PACK * depth / (c.features * max(cover.fraction, 1e-3))
    return idle * (1 + GATHER * LANES / cover.group + pack)
