"""What reduces rows and then writes them, on GPUs: softmax, norms, pools, largest places.

A *row* is what one result of the reductions belongs to: an image's group of channels, a line of
scores, a window.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tvm import s_tir, tirx
from tvm.target import Target

from tvm_sparse.ops.tensors.rows import WHOLE
from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.cuda import threads as t
from tvm_sparse.schedules.rule import ScheduleRule

THREADS = 256
"""Threads of a block: several short rows, or one long one."""

SHARE = 8
"""Elements of a row for each of its threads, at least, while a warp suffices."""

UNKNOWN = 512
"""Elements that a row of open length counts as."""

LONG = 256
"""Elements of a row that several threads reduce, if rows lie one behind the other."""

SHORT, MOST = 64, 4096
"""Elements of a row that one thread reduces, whatever lies side by side, and if rows do."""

ROWS = 4096
"""Rows that keep a GPU busy with a thread each."""

UNROLLED = 64
"""Elements of a row that are written out in the program."""


@dataclass(frozen=True)
class Rows:
    """A function taken apart: its reductions, and the block behind them.

    ``outer`` loops of the last block number the rows, ``inner`` ones the elements of a row.
    """

    sch: s_tir.Schedule
    totals: list[Any]
    last: Any
    outer: list[Any]
    inner: list[Any]

    @property
    def count(self) -> int | None:
        """Rows, if their number is known."""
        return _product(b.extent(self.sch, loop) for loop in self.outer)

    @property
    def length(self) -> int | None:
        """Elements of a row that are reduced, if their number is known: those of all reductions."""
        (length, *others) = {_product(_reduced(self.sch.get(block))) for block in self.totals}
        return None if others else length


def take_apart(func: tirx.PrimFunc) -> Rows | None:
    """Return the parts of ``func`` if all that it reduces are rows, which one block then writes."""
    sch = s_tir.Schedule(func)
    b.inline(sch)
    *totals, last = b.all_blocks(sch)
    reduces = [b.is_reduction(sch, block) for block in (*totals, last)]
    if not totals or reduces != [True] * len(totals) + [False]:
        return None
    shared = _shared(sch, totals, last)
    if shared is None:  # rows may be numbered over several axes
        t.flatten_rows(sch, last)
        shared = _shared(sch, totals, last)
    loops = sch.get_loops(last)
    if shared is None or len(loops) != len(sch.get(last).iter_vars):
        return None
    outer, inner = [], []
    for axis, loop in zip(sch.get(last).iter_vars, loops, strict=True):
        step = shared.get(axis.var)
        if step is None:
            inner.append(loop)
        elif step == 1:
            outer.append(loop)
        else:
            several, within = sch.split(loop, [None, step])
            outer.append(several)
            inner.append(within)
    sch.reorder(*outer, *inner)
    return Rows(sch, totals, last, outer, inner)


def _shared(sch: s_tir.Schedule, totals: list[Any], last: Any) -> dict[Any, int] | None:
    """Return the variables of ``last`` that say which totals it reads, and how many read one.

    None: they say it in another way.
    """
    results = [region.source for block in totals for region in sch.get(block).writes]
    found: dict[Any, int] = {}
    for region in sch.get(last).reads:
        if not any(region.source.same_as(result) for result in results):
            continue
        for axis in region.region:
            index, step = axis.min, 1
            if isinstance(index, tirx.FloorDiv) and isinstance(index.b, tirx.IntImm):
                index, step = index.a, int(index.b)
            if isinstance(index, tirx.IntImm):
                continue
            if not isinstance(index, tirx.Var) or found.setdefault(index, step) != step:
                return None
    return found if _divide(sch, last, found) else None


def _divide(sch: s_tir.Schedule, last: Any, steps: dict[Any, int]) -> bool:
    """Whether all axes of ``last`` have whole numbers of their ``steps``."""
    extents = {axis.var: axis.dom.extent for axis in sch.get(last).iter_vars}
    parts = [(extents[var], step) for var, step in steps.items() if step > 1]
    return all(isinstance(e, tirx.IntImm) and int(e) % step == 0 for e, step in parts)


def _product(extents: Any) -> int | None:
    known = list(extents)
    return None if None in known else math.prod(known)


def _reduced(block: s_tir.SBlock) -> Iterator[int | None]:
    """Yield the extents of the axes that a block reduces."""
    for axis in block.iter_vars:
        if int(axis.iter_type) == b.REDUCTION:
            extent = axis.dom.extent
            yield int(extent) if isinstance(extent, tirx.IntImm) else None


def _side_by_side(sch: s_tir.Schedule, block: Any) -> bool:
    """Whether neighbours of a row are neighbours in what ``block`` reads."""
    body = sch.get(block)
    reduced = [axis.var for axis in body.iter_vars if int(axis.iter_type) == b.REDUCTION]
    widest = max(body.reads, key=lambda region: len(region.source.shape))
    return any(v.same_as(k) for v in b.nodes(widest.region[-1].min, tirx.Var) for k in reduced)


class RowsRule(ScheduleRule):
    """Schedule rows whose elements are side by side: threads reduce a row together.

    before: max --> exp --> sum --> normalise --> element-wise blocks
    after:  for rows of a block: { max; sum, over threads; the rest }
    """

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> s_tir.Schedule | None:
        """Schedule ``func`` if its reductions are marked, or long."""
        marked = b.marked(s_tir.Schedule(func), (WHOLE,)) is not None
        parts = take_apart(func)
        if parts is None or not (marked or self._pays(parts)):
            return None
        sch, length = parts.sch, parts.length
        warps = max(1, min(THREADS // t.WARP, (length or UNKNOWN) // (t.WARP * SHARE)))
        across = t.WARP * (1 << (warps.bit_length() - 1))
        # Rows past the last one have no room: where their number is open, a block has one.
        down = math.gcd(parts.count, THREADS // across) if parts.count else 1
        grid, beside = sch.split(_fused(sch, parts.outer, parts.last), [None, down])
        sch.bind(grid, "blockIdx.x")
        sch.bind(beside, "threadIdx.y")
        for block in reversed(parts.totals):
            sch.set_scope(block, 0, "local")
            sch.compute_at(block, beside, preserve_unit_loops=True)
            count = len(list(_reduced(sch.get(block))))
            _spread(sch, sch.fuse(*sch.get_loops(block)[-count:]), across)
        if parts.inner:
            _spread(sch, sch.fuse(*parts.inner), across)
        return sch

    @staticmethod
    def _pays(parts: Rows) -> bool:
        """Whether long rows lie side by side, and are written."""
        one = all(len(parts.sch.get(block).writes) == 1 for block in parts.totals)
        long = parts.length is not None and parts.length >= LONG
        beside = all(_side_by_side(parts.sch, block) for block in parts.totals)
        return one and long and beside and bool(parts.inner)


class ResultsRule(ScheduleRule):
    """Schedule short rows, and many that lie side by side: a thread has a row of its own.

    before: sums of windows --> means --> element-wise blocks
    after:  for windows, on threads: { sum; the rest }
    """

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> s_tir.Schedule | None:
        """Schedule ``func`` if its rows are short, or many and side by side."""
        parts = take_apart(func)
        if parts is None or not parts.length or not parts.outer:
            return None
        sch = parts.sch
        beside = any(_side_by_side(sch, block) for block in parts.totals)
        few = parts.count is not None and parts.count < ROWS
        if parts.length > (SHORT if beside or few else MOST):
            return None
        row = _fused(sch, parts.outer, parts.last)
        grid, thread = sch.split(row, [None, THREADS])
        sch.bind(grid, "blockIdx.x")
        sch.bind(thread, "threadIdx.x")
        for block in reversed(parts.totals):
            for place in range(len(sch.get(block).writes)):
                sch.set_scope(block, place, "local")
            sch.compute_at(block, thread, preserve_unit_loops=True)
            count = len(list(_reduced(sch.get(block))))
            if parts.length <= UNROLLED:
                for loop in sch.get_loops(block)[-count:]:
                    sch.unroll(loop)
        return sch


def _fused(sch: s_tir.Schedule, loops: list[Any], last: Any) -> Any:
    """Return one loop for several, one of a single turn for none."""
    if loops:
        return sch.fuse(*loops)
    return sch.add_unit_loop(last)


def _spread(sch: s_tir.Schedule, loop: b.LoopRV, across: int) -> None:
    """Give neighbouring threads neighbouring elements."""
    step, thread = sch.split(loop, [None, across])
    sch.bind(thread, "threadIdx.x")
    extent = b.extent(sch, step)
    if extent is not None and extent <= UNROLLED:
        sch.unroll(step)
