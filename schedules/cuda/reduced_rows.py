"""Functions that reduce rows and then write them, taken apart: what two rules of GPUs do first.

A *row* is what one result of the reductions belongs to: an image's group of channels, a line of
scores, a window.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tvm import s_tir, tirx

from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.cuda import threads as t

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

    def numbered(self) -> Any:
        """Return one loop over all rows; one of a single turn if there is one row."""
        return self.sch.fuse(*self.outer) if self.outer else self.sch.add_unit_loop(self.last)

    def reduced(self, block: Any) -> list[Any]:
        """Return the loops of a reduction over the elements of a row: the innermost ones."""
        return list(self.sch.get_loops(block)[-len(list(_reduced(self.sch.get(block)))) :])

    def side_by_side(self, block: Any) -> bool:
        """Whether neighbours of a row are neighbours in what a reduction reads."""
        body = self.sch.get(block)
        reduced = [axis.var for axis in body.iter_vars if int(axis.iter_type) == b.REDUCTION]
        widest = max(body.reads, key=lambda region: len(region.source.shape))
        last = b.nodes(widest.region[-1].min, tirx.Var)
        return any(v.same_as(k) for v in last for k in reduced)


def take_apart(func: tirx.PrimFunc) -> Rows | None:
    """Return the parts of ``func`` if all that it reduces are rows, which one block then writes."""
    sch = s_tir.Schedule(func)
    if not any(b.is_reduction(sch, block) for block in b.all_blocks(sch)):
        return None
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
