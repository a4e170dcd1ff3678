"""Everything that is not a contraction: element-wise chains, pooling, softmax, norms."""

from __future__ import annotations

import itertools
import operator
from typing import Any

from tvm import ir, s_tir, tirx
from tvm.target import Target

from tvm_sparse.base.numerics import bits_of
from tvm_sparse.machine.vector import LANES, VECTOR_BITS
from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.blocks import BlockRV, LoopRV
from tvm_sparse.schedules.cpu import cores, simd
from tvm_sparse.schedules.cpu.flat import last_loop, side_by_side
from tvm_sparse.schedules.cpu.overlap_tiles import overlap
from tvm_sparse.schedules.rule import ScheduleRule
from tvm_sparse.schedules.variables import uses

_SUMS = 4 * LANES
"""Partial results of a long row: additions of four vectors overlap, one would wait for itself."""

_RESHAPES = ("reshape", "T_reshape")
"""Names of blocks that only move elements to other axes: our definition's and TVM's."""

_PARTS = (tirx.FloorDiv, tirx.FloorMod)

_TASKS = 64
"""Steps that any number of threads can share."""

_LONG = 2048
"""Elements of a row from which on that is worth more partial results to combine at the end."""


class GenericRule(ScheduleRule):
    """Inline element-wise chains, then give each block that is left vectors and registers.

    A reduction over the contiguous axis (softmax, layer norm) gets a vector of partial sums; one
    over other axes (pooling, spatial mean) keeps vectors of the contiguous axis in registers.
    """

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> s_tir.Schedule | None:
        """Schedule any function; a step that does not apply to a block leaves it as it is."""
        sch = _inlined(func)
        for block in b.all_blocks(sch):
            loops, axes = sch.get_loops(block), sch.get(block).iter_vars
            if not loops or len(loops) != len(axes):
                continue
            if not b.is_reduction(sch, block):
                _elementwise(sch, block)
                cores.parallelise(sch, block)
            elif (axis := _reduced_last(sch, block)) is None:
                _column_reduction(sch, block)
            else:
                _row_reduction(sch, block, axis)
        return sch


def _inlined(func: tirx.PrimFunc) -> s_tir.Schedule:
    """Return a schedule with element-wise chains inlined, on axes that vectors can walk if any.

    A chain that ends in a reshape may have none on the new axes: the old ones are kept then, and
    written to where the reshape puts them.
    """
    sch = s_tir.Schedule(func)
    b.inline(sch)
    blocks = b.all_blocks(sch)
    if len(blocks) != 1 or not sch.get(blocks[0]).name_hint.startswith(_RESHAPES):
        return sch
    if b.is_reduction(sch, blocks[0]) or _contiguous(sch, blocks[0]):
        return sch
    other = s_tir.Schedule(func)
    try:
        other.reverse_compute_inline(b.all_blocks(other)[-1])
    except s_tir.ScheduleError:
        return sch  # nothing is computed before it
    b.inline(other)
    return other


def _elementwise(sch: s_tir.Schedule, block: BlockRV) -> None:
    """Vectorise a block without a reduction, over as many axes as memory has side by side."""
    most = side_by_side(sch, block, b.SPATIAL)
    if not most:
        if _contiguous(sch, block):
            simd.vectorise_last(sch, block)
        return
    loops = sch.get_loops(block)
    extent = b.extent(sch, loops[-1])
    loop, lanes = last_loop(sch, loops, most)
    if lanes % LANES and loop is loops[-1] and extent and extent > LANES:
        lanes = LANES
        overlap(sch, block)
    if lanes > 1:
        _, lane = sch.split(loop, [None, lanes])
        sch.vectorize(lane)


def _contiguous(sch: s_tir.Schedule, block: BlockRV) -> bool:
    """Whether the innermost axis is innermost wherever a buffer is read: a transposition is not.

    Nor is a remainder, beyond which the next element lies elsewhere.
    """
    body = sch.get(block)
    var = body.iter_vars[-1].var
    for load in b.nodes(body.body, ir.TensorLoad):
        outer, last = load.indices[:-1], load.indices[-1:]
        cut = [part for i in last for kind in _PARTS for part in b.nodes(i, kind)]
        if any(uses(part, var) for part in (*outer, *cut)):
            return False
    return True


def _reduced_last(sch: s_tir.Schedule, block: BlockRV) -> int | None:
    """Position among the reduced axes of the one that walks a buffer's contiguous axis."""
    body = sch.get(block)
    reduced = [v.var for v in body.iter_vars if int(v.iter_type) == b.REDUCTION]
    written = [w.source for w in body.writes]
    inputs = [r for r in body.reads if not any(r.source.same_as(w) for w in written)]
    last = [r.region[-1].min for r in inputs if len(r.region)]
    return next((i for i, v in enumerate(reduced) if any(uses(e, v) for e in last)), None)


def _split_axes(sch: s_tir.Schedule, block: BlockRV) -> tuple[list[Any], list[Any]]:
    kinds = [int(v.iter_type) for v in sch.get(block).iter_vars]
    loops = sch.get_loops(block)
    spatial = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == b.SPATIAL]
    return spatial, [loop for loop, kind in zip(loops, kinds, strict=True) if kind == b.REDUCTION]


def _column_reduction(sch: s_tir.Schedule, block: BlockRV) -> None:
    """Reduce over outer axes with vectors of the contiguous axes as accumulators."""
    most = side_by_side(sch, block, b.SPATIAL)
    spatial, reduced = _split_axes(sch, block)
    if not spatial:
        return
    width, count = _columns([b.extent(sch, loop) for loop in spatial[-max(1, most) :]])
    if width == 1:
        return
    columns = sch.fuse(*spatial[-count:]) if count > 1 else spatial[-1]
    spatial = [*spatial[:-count], columns]
    heavy = cores.is_large(sch, block)
    lanes = _lanes(sch, block)
    out, inner = sch.split(spatial[-1], [None, width])
    sch.reorder(*spatial[:-1], out, *reduced, inner)
    _vectors(sch, inner, lanes)
    stored = sch.cache_write(block, 0, "local")
    sch.reverse_compute_at(stored, out, preserve_unit_loops=True)
    _vectors(sch, sch.get_loops(stored)[-1], lanes)
    if heavy:  # before the block is cut in two writers of its output
        cores.share(sch, _tasks(sch, [*spatial[:-1], out]))
    sch.decompose_reduction(block, reduced[0])


def _tasks(sch: s_tir.Schedule, loops: list[LoopRV]) -> list[LoopRV]:
    """Return the outer ``loops`` that are steps enough for threads.

    Inner ones stay: what is asked of a place, whether it lies beyond a border, is asked once a row.
    """
    steps = itertools.accumulate((b.extent(sch, loop) or 1 for loop in loops), operator.mul)
    return loops[: next((k for k, n in enumerate(steps, 1) if n >= _TASKS), len(loops))]


def _columns(extents: list[int | None]) -> tuple[int, int]:
    """Return how many columns to reduce side by side, and the last axes that they are a part of.

    They are whole rows of those axes, or a part of one: a box that TVM can copy.
    """
    found, inner = [(1, 1)], 1
    for count, extent in enumerate(reversed(extents), 1):
        if extent is None:
            break
        found += [(d * inner, count) for d in b.divisors(extent, _SUMS // inner)]
        inner *= extent
        if inner > _SUMS:
            break
    width, count = max(found, key=lambda f: (f[0] % LANES == 0, f[0]))
    return (width, count) if width >= 4 else (1, 1)


def _row_reduction(sch: s_tir.Schedule, block: BlockRV, axis: int) -> None:
    """Reduce the contiguous axis in a vector of partial results, combined at the end."""
    most = side_by_side(sch, block, b.REDUCTION)
    spatial, reduced = _split_axes(sch, block)
    last = axis == len(reduced) - 1
    loop, lanes = last_loop(sch, reduced, most if last else 1) if last else (reduced[axis], 0)
    if not last:
        extent = b.extent(sch, loop)
        lanes = LANES if extent and extent % LANES == 0 else 1
    elif lanes == LANES and b.extent(sch, loop) >= _LONG and b.extent(sch, loop) % _SUMS == 0:
        lanes = _SUMS
    if lanes == 1 or b.extent(sch, loop) == lanes:
        return
    if not spatial and len(b.all_blocks(sch)) > 1:
        return  # TVM cannot cut a block without a loop of its own beside others
    heavy = cores.is_large(sch, block)
    _, lane = sch.split(loop, [None, lanes])
    partial = sch.rfactor(lane, factor_axis=len(spatial))
    if spatial:
        sch.compute_at(partial, spatial[-1], preserve_unit_loops=True)
        lane, *rest = sch.get_loops(partial)[len(spatial) :]
        sch.reorder(*rest, lane)
    else:
        *rest, lane = sch.get_loops(partial)
    sch.vectorize(lane)
    if heavy and spatial:
        cores.share(sch, spatial)
    sch.decompose_reduction(partial, rest[0])


def _lanes(sch: s_tir.Schedule, block: BlockRV) -> int:
    """Return the elements of a vector: more where all that a block reads and writes are bytes."""
    body = sch.get(block)
    types = {str(region.source.ty.dtype) for region in (*body.reads, *body.writes)}
    return VECTOR_BITS // bits_of(types.pop()) if types in ({"uint8"}, {"int8"}) else LANES


def _vectors(sch: s_tir.Schedule, loop: LoopRV, most: int) -> None:
    extent = b.extent(sch, loop)
    lanes = most if extent % most == 0 else LANES
    out, lane = sch.split(loop, [None, extent if extent % lanes else lanes])
    sch.vectorize(lane)
    sch.unroll(out)
