"""How to store a matrix whose rows share runs of columns, and what that would cost."""

from __future__ import annotations

from collections.abc import Iterator

from tvm.target import Target

from tvm_sparse.formats.compressed_rows import CompressedRowsFormat
from tvm_sparse.machine.costs import Costs
from tvm_sparse.machine.engine.registry import engine_of
from tvm_sparse.machine.fitted import costs_of
from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.contractions.block import block
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.candidate import Candidate
from tvm_sparse.selection.covers import Cover, covers
from tvm_sparse.selection.cpu.assumptions import LATENCY
from tvm_sparse.selection.cpu.compressed_rows import (
    batch_in_lanes,
    batch_vectors,
    compressed_candidate,
    rows_penalty,
)
from tvm_sparse.selection.cpu.shared_columns import shared_candidate
from tvm_sparse.selection.cpu.tiles import block_tiles_candidates
from tvm_sparse.selection.narrow import narrowest, stored

GROUPS = (LANES, 2 * LANES, 4 * LANES)
SMALL_GROUPS = (2, 4, 8)
RUNS = (1, 2, 4, 8, 16, 32)
"""Columns side by side that share an index."""

MAX_STEPS = 32
"""Most unrolled multiply-adds of an entry with lanes along the batch."""


def block_candidates(
    contraction: Contraction, scan: Scan, target: Target
) -> Iterator[Candidate | str]:
    """Yield the cheapest format of a weight in which at least two weights share an index.

    Groups of whole lane vectors run with lanes along rows, smaller ones with lanes along the
    batch. Blocks need not be those of pruning: 8 x 8 blocks may run as 16 x 4 or as 8 x 8. Where a
    lane takes several columns, groups may share single ones (``shared_columns``). Where an engine
    multiplies tiles, it may leave out steps, too.
    """
    c = contraction
    if c.depthwise:
        return
    yield from block_tiles_candidates(c, scan, target)
    costs, depth = costs_of(target), engine_of(c.numerics, target).depth
    runs = tuple(run for run in RUNS if c.columns % run == run % depth == 0)
    each = c.features // c.groups
    groups = tuple(group for group in GROUPS if c.groups == 1 or each % group == 0)
    shared = shared_candidate("block", c, scan, target)
    if not runs:
        yield shared or f"block needs a multiple of {depth} columns a tap, found {c.columns}"
        return
    wide = min(
        covers(scan, groups, runs), key=lambda cover: cover.fraction * penalty(c, cover, costs)
    )
    if c.groups == depth == 1 and c.columns >= LANES and batch_in_lanes(c) and not c.guarded:
        tried = (k for k in covers(scan, SMALL_GROUPS, runs) if k.group * k.run <= MAX_STEPS)
        cost, _, small = min(
            (k.fraction * rows_penalty(c, k, batch_vectors(c, k, target), target), i, k)
            for i, k in enumerate(tried)
        )
        if cost < wide.fraction * penalty(c, wide, costs):
            yield compressed_candidate("block", c, scan, small, target)
            return
    if shared is not None and shared.cost < wide.fraction * penalty(c, wide, costs):
        yield shared
        return
    format = CompressedRowsFormat.of(
        scan.weight,
        group=wide.group,
        run=wide.run,
        tile_rows=wide.group,
        tile_cols=scan.cols,
        depth=depth,
    )
    narrow = narrowest(c, scan, target)
    func = block(narrow, format, target)
    held = stored(format, narrow, target)
    yield Candidate("block", held, func, wide.fraction, penalty(c, wide, costs))


def penalty(c: Contraction, cover: Cover, costs: Costs) -> float:
    """Return the modelled cost of a multiply-add with lanes along rows, relative to dense.

    Fewer accumulators than a multiply-add has cycles of latency leave it waiting.
    """
    rows = min(8, c.rows)
    waiting = max(1.0, LATENCY * LANES / (rows * cover.group))
    return waiting + costs.block / (cover.run * rows)
