"""How to store a matrix whose rows share single columns, and what that would cost."""

from __future__ import annotations

import math

from tvm.target import Target

from tvm_sparse.formats.shared_columns import SharedColumnsFormat
from tvm_sparse.machine.engine.registry import engine_of
from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.shared_columns import shared_columns
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.candidate import Candidate
from tvm_sparse.selection.covers import covers
from tvm_sparse.selection.cpu.assumptions import GATHERED, SHARED_IN, SHARED_OUT
from tvm_sparse.selection.cpu.compressed_rows import batch_in_lanes
from tvm_sparse.selection.narrow import stored


def shared_candidate(name: str, c: Contraction, scan: Scan, target: Target) -> Candidate | None:
    """Return the format in which groups of rows share columns, or ``None`` if none fits.

    It is for numbers of which a lane takes several columns: others share single columns as they do
    blocks. Registers hold the sums of 16 rows; larger groups would gather again for each 16.
    """
    engine = engine_of(c.numerics, target)
    small = min(c.columns, c.rows) < LANES
    if engine.depth == 1 or c.groups > 1 or c.guarded or small or not batch_in_lanes(c):
        return None
    (cover,) = covers(scan, (LANES,), (1,))
    format = SharedColumnsFormat.of(scan.weight, depth=engine.depth, taps=math.prod(c.taps))
    func = shared_columns(c, format, target)
    work = format.entries * format.depth * format.group / scan.cells
    penalty = _penalty(c, cover.fraction / engine.depth)
    return Candidate(name, stored(format, c, target), func, work, penalty, nest="shared columns")


def _penalty(c: Contraction, kept: float) -> float:
    """Return the modelled cost of a multiply-add, relative to dense, for steps that are ``kept``.

    Transpositions of activations and results cost the same whatever is left of the matrix. Lanes of
    the last tile are idle.
    """
    rows, kept = c.rows, max(kept, 1e-4)
    idle = math.ceil(rows / LANES) * LANES / rows
    pack = SHARED_IN / (c.features * kept)
    turn = SHARED_OUT / (c.columns * math.prod(c.taps) * kept)
    return idle * (1 + GATHERED + pack + turn)
