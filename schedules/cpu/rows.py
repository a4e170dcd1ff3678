"""Softmax and layer norm on CPUs: everything about one row happens while it is in cache."""

from __future__ import annotations

from typing import Any

from tvm import s_tir, tirx
from tvm.target import Target

from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.marks import OPERATOR
from tvm_sparse.ops.tensors.rows import PARTIAL, RESULT, STORED, TAIL, TOTALS
from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.blocks import BlockRV, LoopRV
from tvm_sparse.schedules.cpu import cores, simd
from tvm_sparse.schedules.cpu.overlap_tiles import ENOUGH, OVERLAP, overlap
from tvm_sparse.schedules.cpu.versions import versions
from tvm_sparse.schedules.rule import ScheduleRule

TOGETHER = 4
"""Rows that run through each step side by side: their chains of dependent steps overlap."""

SHORT = 2 * LANES
"""Elements up to which rows that keep their axes run one by one: all of several rows' steps are
unrolled, and LLVM makes vectors of the loop over them, which it gathers and scatters."""

LONG = 32 * LANES
"""Elements from which on a row's values are reduced as they are stored: it has one sum, which
waits at its end, where rows side by side have several."""


class RowsRule(ScheduleRule):
    """One loop over rows around all steps, each step in vectors.

    before: max --> exp --> sum --> normalise, each over all rows
    after:  for row: { max; exp; sum; normalise }
    """

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> s_tir.Schedule | None:
        """Schedule ``func`` if it holds a block marked as a partial row reduction."""
        few = self._scheduled(s_tir.Schedule(func), target)
        rows = None if few is None else _open_rows(func)
        if rows is None:
            return few

        def made(func: tirx.PrimFunc, together: int) -> s_tir.Schedule:
            return self._scheduled(s_tir.Schedule(func), target, together)

        cases = [([(rows, TOGETHER)], lambda f: made(f, TOGETHER))]
        return versions(func, cases, lambda f: made(f, 1))

    def _scheduled(
        self, sch: s_tir.Schedule, target: Target, open_rows: int = 1
    ) -> s_tir.Schedule | None:
        """Schedule a function; of an open number of rows, ``open_rows`` run side by side."""
        if b.marked(sch, (PARTIAL,)) is None:
            return None
        tails = [name for name in _names(sch) if name.endswith(TAIL)]
        cut = _cut(sch)
        b.inline(sch, keep=(*STORED, *TOTALS, "inverse", "logarithm", *tails, *cut))
        blocks = b.all_blocks(sch)
        end = _names(sch).index(cut[0]) + 1 if cut else len(blocks)
        *steps, final = blocks[:end]
        if any(b.is_reduction(sch, block) for block in (final, *blocks[end:])):
            return None
        if len(b.domain(sch, final)) != len(sch.get_loops(final)):
            return None
        numbered = len(b.domain(sch, steps[0])) == 2
        if numbered:
            b.number_rows(sch, final)
        *lead, within = sch.get_loops(final)
        whole = (b.extent(sch, lead[-1]) or open_rows) % TOGETHER == 0
        plain = numbered or (b.extent(sch, within) or SHORT + 1) > SHORT
        together = TOGETHER if whole and plain else 1
        last, _ = sch.split(lead[-1], [None, together])
        row = sch.fuse(*lead[:-1], last)
        for step in reversed(steps):
            # Small results stay in the default scope: TVM calls an allocator for "local" ones.
            sch.compute_at(step, row, preserve_unit_loops=True)
        if cores.worthwhile(8 * b.flops(sch, final) * len(steps), target):
            sch.parallel(row)  # before reductions are split in two, which hides that rows are free
        if open_rows > 1:
            _overlap_rows(sch, [*steps, final])
        for step in (*steps, final):
            self._vectors(sch, step)
        for block in blocks[end:]:
            simd.vectorise_last(sch, block)
            cores.parallelise(sch, block)
        return sch

    @staticmethod
    def _vectors(sch: s_tir.Schedule, step: BlockRV) -> None:
        """Give one step vectors; its loops are those inside the row loop, the tile's rows first."""
        *rows, last = sch.get_loops(step)[1:]
        if OPERATOR in sch.get(step).annotations and (stored := _whole_vectors(sch, step)):
            _reduce_beside(sch, step, stored)
        elif OPERATOR in sch.get(step).annotations:
            lane = rows.pop()
            sch.reorder(last, *rows, lane)
            sch.vectorize(lane)
            unroll(sch, rows)
            sch.decompose_reduction(step, last)
        elif sch.get(step).name_hint in TOTALS:
            unroll(sch, [*rows, last])
        elif b.extent(sch, last) == LANES:
            sch.vectorize(last)
        elif len(b.domain(sch, step)) == len(rows) + 1 and b.extent(sch, last) > LANES:
            _, lane = sch.split(last, [None, LANES])
            overlap(sch, step)
            sch.vectorize(lane)


def _open_rows(func: tirx.PrimFunc) -> Any | None:
    """Return how many rows ``func`` has, if that is open and each is whole vectors."""
    *_, rows, within = func.params[-1].shape
    closed = isinstance(rows, tirx.IntImm) or not isinstance(within, tirx.IntImm)
    return None if closed or int(within) % LANES or int(within) <= SHORT else rows


def _overlap_rows(sch: s_tir.Schedule, steps: list[BlockRV]) -> None:
    """Let the last rows that run side by side be rows of before, too: each begins with the input.

    Only unrolled rows are seen as a tile.
    """
    for step in steps:
        sch.annotate(step, OVERLAP, f"{RESULT}, {ENOUGH}")
        sch.annotate(step, ENOUGH, True)
        if OPERATOR not in sch.get(step).annotations and sch.get(step).name_hint not in TOTALS:
            rows = [x for x in sch.get_loops(step)[1:] if b.extent(sch, x) == TOGETHER]
            unroll(sch, rows[:1])


def _whole_vectors(sch: s_tir.Schedule, step: BlockRV) -> BlockRV | None:
    """Return the step that stores what ``step`` reduces, if its rows are many whole vectors."""
    stored = [q for q in sch.get_producers(step) if sch.get(q).name_hint in STORED]
    lengths = [int(sch.get(q).iter_vars[-1].dom.extent) for q in stored]
    return stored[0] if any(n >= LONG and n % LANES == 0 for n in lengths) else None


def _reduce_beside(sch: s_tir.Schedule, step: BlockRV, stored: BlockRV) -> None:
    """Reduce each vector where it is stored, while it is in a register."""
    tile = sch.get_loops(stored)[-2]
    sch.reverse_compute_at(step, tile)
    sch.vectorize(sch.get_loops(step)[-1])
    sch.decompose_reduction(step, tile)


def _names(sch: s_tir.Schedule) -> list[str]:
    return [sch.get(block).name_hint for block in b.all_blocks(sch)]


def _cut(sch: s_tir.Schedule) -> list[str]:
    """Return the block to stop at, by name, if a padding or a slice leaves other rows behind it."""
    first = sch.get_sblock(RESULT)
    size, chain = b.size(sch, first), [first, *b.downstream(sch, first)]
    if b.size(sch, b.all_blocks(sch)[-1]) == size:
        return []
    ends = [q for q in chain if any(b.size(sch, c) != size for c in sch.get_consumers(q))]
    return [sch.get(q).name_hint for q in ends if b.size(sch, q) == size][:1]


def unroll(sch: s_tir.Schedule, loops: list[LoopRV]) -> None:
    """Unroll loops longer than one."""
    for loop in loops:
        if b.extent(sch, loop) != 1:
            sch.unroll(loop)
