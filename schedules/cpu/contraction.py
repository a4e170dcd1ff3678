"""Register-tiled contractions on CPUs: dense and balanced, with whatever epilogue was fused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tvm import ir, s_tir, tirx
from tvm.target import Target

from tvm_sparse.base.numerics import bits_of
from tvm_sparse.machine.record import Machine
from tvm_sparse.machine.registry import machine_of
from tvm_sparse.machine.vector import LANES, MOST_ACCUMULATORS, SUM_BITS
from tvm_sparse.ops.contractions.batch_matmul import PACK, UNSEEN
from tvm_sparse.ops.contractions.contraction import OPEN_ROWS
from tvm_sparse.ops.marks import ROWS
from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.blocks import BlockRV, LoopRV
from tvm_sparse.schedules.cpu import cores, simd
from tvm_sparse.schedules.cpu.nest import Nest
from tvm_sparse.schedules.cpu.overlap_tiles import overlap
from tvm_sparse.schedules.cpu.register_tile import sampled_tile
from tvm_sparse.schedules.cpu.tile_walk import default_walk
from tvm_sparse.schedules.cpu.versions import Made, versions
from tvm_sparse.schedules.isolate import isolate
from tvm_sparse.schedules.rule import ScheduleRule
from tvm_sparse.schedules.sampling import choose, near_and_far

MAX_STEPS = 16
"""Most lookups of one lane vector in a row without a loop."""

SHORT_ROWS = 4
"""Rows of a tile where a line of a plane has fewer than the others want."""


class ContractionRule(ScheduleRule):
    """Tile rows x lanes into registers, walk the reduction innermost, store once.

    before: contract --> store --> element-wise blocks
    after:  for feature tile, row tile: { init; for reduction: unrolled multiply-adds; epilogue }

    Products of two activations walk their batches outermost and pack the right operand there.
    """

    marks = ("dense", "balanced", "matmul")

    def feasible(self, schedule: s_tir.Schedule) -> bool:
        """Whether the register tile fits the registers."""
        return simd.registers(schedule, "contract") <= MOST_ACCUMULATORS

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> s_tir.Schedule | None:
        """Schedule ``func`` if it holds a block marked ``dense``, ``balanced`` or ``matmul``."""
        sch = s_tir.Schedule(func)
        anchor = b.marked(sch, self.marks)
        if anchor is None:
            return None
        tiles = [] if tunable else _open_tiles(sch, anchor, machine_of(target))
        if not tiles:
            return self._scheduled(sch, anchor, target, tunable)

        name = sch.get(anchor).name_hint

        def made(axis: int, rows: int) -> Made:
            def schedule(func: tirx.PrimFunc) -> s_tir.Schedule:
                own = s_tir.Schedule(func)
                own_anchor = own.get_sblock(name)
                own.unannotate(own_anchor, ROWS)
                own.annotate(own_anchor, ROWS, axis)
                return self._scheduled(own, own_anchor, target, tunable=False, open_rows=rows)

            return schedule

        cases = [(least, made(axis, rows)) for axis, least, rows in tiles]
        return versions(func, cases, made(tiles[0][0], 1))

    def _scheduled(
        self,
        sch: s_tir.Schedule,
        anchor: BlockRV,
        target: Target,
        tunable: bool,
        open_rows: int = 1,
    ) -> s_tir.Schedule:
        """Schedule the contraction ``anchor``, with tiles of as many rows as fit ``open_rows``."""
        epilogue = isolate(sch, anchor, keep=(PACK, UNSEEN))
        if sch.get(epilogue).name_hint == UNSEEN:
            sch.reverse_compute_inline(*sch.get_consumers(epilogue))
        machine = machine_of(target)
        nest = Nest.of(sch, anchor, machine.caches.second)
        if nest.operator != "matmul":
            *rows, _, _ = sch.get(anchor).writes[0].source.ty.shape
            b.number_rows(sch, epilogue, rows)
        parts = nest.operator != "matmul" and _in_parts(sch, anchor, epilogue)
        stored = bits_of(str(sch.get(epilogue).writes[0].source.dtype)) // 8
        nest = replace(nest, parts=parts, piece=LANES * stored)
        widths = [bits // SUM_BITS for bits in machine.widths]
        widths = [LANES] if nest.in_vectors else widths
        narrow = nest.features < LANES
        width = nest.features if narrow else choose(sch, widths, LANES, tunable)
        heavy = cores.worthwhile(_flops(sch, nest, open_rows), target)
        outer, near, body = self._tile(sch, nest, width, machine, tunable, open_rows)
        shared, outer = self._split(sch, anchor, nest, outer, target) if heavy else ([], outer)
        sch.reorder(*shared, *outer, *near, *body)
        sch.set_scope(anchor, 0, "local")
        sch.reverse_compute_at(epilogue, near[-1], preserve_unit_loops=True)
        around = len(shared) + len(outer) + len(near)
        simd.vectorise_tile(sch, epilogue, around, width, tunable)
        parallel = nest.others if nest.operator == "matmul" else outer
        if shared:
            cores.tasks(sch, shared)
        elif parallel and heavy:
            planes = [] if nest.operator == "matmul" else nest.others
            parallel = cores.few_tasks(sch, parallel, planes, target)
        if nest.operator == "matmul":
            self._pack(sch, anchor, parallel, enough=open_rows > 1)
        overlap(sch, anchor, epilogue, enough=open_rows > 1, version=open_rows)
        sch.decompose_reduction(anchor, body[0])
        simd.finish(sch)
        return sch

    @staticmethod
    def _split(
        sch: s_tir.Schedule, anchor: BlockRV, nest: Nest, outer: list[LoopRV], target: Target
    ) -> tuple[list[Any], list[Any]]:
        """Return the loops over images and parts of a plane that threads share, and the others.

        There are none to share where threads share features.
        """
        if nest.operator == "matmul" or not nest.others:
            return [], outer
        *images, plane = nest.others
        part, rest = cores.split_plane(sch, anchor, nest.lead, nest.axis, target)
        if not part:
            return [], outer
        inside = [x for x in outer if not any(x.same_as(image) for image in images)]
        inside = [y for x in inside for y in (rest if x.same_as(plane) else [x])]
        return [*images, *part], inside

    def _tile(  # noqa: PLR0917 (what a tile depends on)
        self,
        sch: s_tir.Schedule,
        nest: Nest,
        width: Any,
        machine: Machine,
        tunable: bool,
        open_rows: int,
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Split the loops into outer ones (other threads, other caches), near ones and the tile."""
        rows = b.extent(sch, nest.lead[nest.axis]) or open_rows
        blocks = b.extent(sch, nest.block) or 1
        extents = [[b.extent(sch, x) or 1 for x in loops] for loops in (nest.lead, nest.reduce)]
        extents[0][nest.axis] = rows
        default, chunk = default_walk(sch, nest, extents, machine)
        if open_rows == 1 and not tunable and b.extent(sch, nest.block) is None:
            default = replace(default, rows=1)  # fewer columns than lanes: code, and no speed
        tile = sampled_tile(sch, rows, blocks, default, tunable, widest=nest.widest)
        row_out, row_in = sch.split(nest.lead[nest.axis], [None, tile.rows])
        blk_out, blk_in = sch.split(nest.block, [None, tile.vectors])
        body = self._order(sch, nest, (row_in, blk_in), width, tunable)
        first = chunk > 1
        far_rows, near_rows = near_and_far(sch, row_out, tunable, near=1 if first else None)
        far_blocks, near_blocks = near_and_far(sch, blk_out, tunable, near=chunk)
        before = len(nest.others) if nest.operator == "matmul" else nest.images
        lead = [*nest.others[:before], *far_blocks, *nest.others[before:]]
        return [*lead, *far_rows], [*near_blocks, *near_rows], body

    @staticmethod
    def _pack(sch: s_tir.Schedule, anchor: BlockRV, batches: list[LoopRV], *, enough: bool) -> None:
        """Pack the right operand of each batch just before its product."""
        (pack,) = [p for p in sch.get_producers(anchor) if sch.get(p).name_hint == PACK] or [None]
        if pack is None:
            return
        if batches:
            sch.compute_at(pack, batches[-1], preserve_unit_loops=True)
        *_, row, column = sch.get_loops(pack)
        outer, lane = sch.split(column, [None, min(LANES, b.extent(sch, column) or LANES)])
        sch.reorder(outer, row, lane)  # columns of a transposed operand share cache lines
        overlap(sch, pack, enough=enough)
        sch.vectorize(lane)

    @staticmethod
    def _order(
        sch: s_tir.Schedule, nest: Nest, tile: tuple[Any, Any], width: Any, tunable: bool
    ) -> list[Any]:
        """Return the loops inside the tile, outermost first; unroll and vectorise them."""
        (row, block), inner, reduce = tile, nest.inner, nest.reduce
        if not nest.in_vectors:
            parts, lane = _vectors(sch, inner, width)
            for loop in (row, block, *parts):
                sch.unroll(loop)
            return [*reduce[:-1], *_steps(sch, reduce[-1], tunable), row, block, *parts, lane]
        *taps, bank, slot = reduce
        banks, keep = b.extent(sch, bank), b.extent(sch, slot)
        options = [d for d in b.divisors(banks, MAX_STEPS) if d * keep <= MAX_STEPS]
        word = choose(sch, options, _word_banks(sch, nest, keep, banks), tunable)
        bank_out, bank_in = sch.split(bank, [None, word])
        for loop in (bank_in, block, slot, row, inner):
            sch.unroll(loop)
        return [*taps, bank_out, bank_in, slot, block, row, inner]


def _flops(sch: s_tir.Schedule, nest: Nest, open_rows: int) -> float:
    """Return the operations of a contraction; open axes but the batch are ``open_rows`` each."""
    plane = nest.others[1:][-1:]  # behind the batch
    axes = [x for x in (nest.lead[nest.axis], nest.block, *plane) if b.extent(sch, x) is None]
    return nest.flops * open_rows ** len(axes)


def _open_tiles(
    sch: s_tir.Schedule, anchor: BlockRV, machine: Machine
) -> list[tuple[int, list[tuple[Any, int]], int]]:
    """Return the axes along which a register tile of open extents may lie, the best one first.

    Each comes with the open extents that the tile spans, with what these are at least, and with
    how many rows to make it for. An open number of columns is cut into single vectors. Of rows of
    two open axes, such as a batch of sequences, the last may be shorter than a tile: then the tile
    lies along the other one. Lines of planes may be, too, as the 7 pixels of the last layers of
    classifiers: then tiles have :data:`SHORT_ROWS`.
    """
    trial = sch.copy()
    block = trial.get_sblock(sch.get(anchor).name_hint)
    nest = Nest.of(trial, block, machine.caches.second)
    axes = sch.get(anchor).iter_vars

    def least(axis: int) -> list[tuple[Any, int]]:
        if b.extent(trial, nest.lead[axis]) is not None:
            return []
        extents = [[b.extent(trial, x) or 1 for x in loops] for loops in (nest.lead, nest.reduce)]
        extents[0][axis] = OPEN_ROWS
        tile, _ = default_walk(trial, replace(nest, axis=axis), extents, machine)
        return [(axes[axis].dom.extent, tile.rows)]

    spans = least(nest.axis)
    if nest.operator == "matmul":
        columns = axes[len(nest.lead)].dom.extent
        spans += [] if isinstance(columns, tirx.IntImm) else [(columns, LANES)]
    if not spans:
        return []
    found = [(nest.axis, spans, OPEN_ROWS)]
    if nest.operator != "matmul" and len(nest.lead) == 2:
        own = least(1 - nest.axis)
        found += [(1 - nest.axis, own, OPEN_ROWS)] if own else []
    elif nest.operator != "matmul" and (rows := spans[0])[1] > SHORT_ROWS:
        found += [(nest.axis, [(rows[0], SHORT_ROWS)], SHORT_ROWS)]
    return found


def _in_parts(sch: s_tir.Schedule, anchor: BlockRV, epilogue: BlockRV) -> bool:
    """Whether rows are numbered, several parts of them: TVM sees no tile in a partial one."""
    sums = sch.get(anchor).writes[0].source
    loads = (x for x in b.nodes(sch.get(epilogue).body, ir.TensorLoad) if x.source.same_as(sums))
    rows = [index for load in loads for index in load.indices[:-2]]
    return any(b.nodes(row, kind) for row in rows for kind in (tirx.FloorDiv, tirx.FloorMod))


def _word_banks(sch: s_tir.Schedule, nest: Nest, keep: int, banks: int) -> int:
    """Return how many banks to unroll, so that indices come from whole words.

    Banks with words of their own gain nothing from one another, but their tables and indices take
    registers: two banks of four slots of bfloat16 spilt, and took 1.17 times as long.
    """
    apart = False
    if nest.operator == "balanced":
        _, values, words = (read.source.shape for read in sch.get(nest.anchor).reads)
        deep = int(values[-1]) > 2 * LANES  # their words have few indices
        apart = deep or int(words[1]) >= int(values[1])
    most = max(1, (4 if apart else 8) // keep)
    return max(d for d in range(1, most + 1) if banks % d == 0)


def _steps(sch: s_tir.Schedule, loop: LoopRV, tunable: bool) -> list[Any]:
    """Split a reduction into steps and unrolled steps; the default unrolls none."""
    extent = b.extent(sch, loop)
    if not tunable or extent is None:
        return [loop]
    out, inner = sch.split(loop, [None, choose(sch, b.divisors(extent, 8), 1, tunable)])
    sch.unroll(inner)
    return [out, inner]


def _vectors(sch: s_tir.Schedule, lanes: Any, width: Any) -> tuple[list[Any], Any]:
    """Vectorise a loop over :data:`LANES`, in parts if ``width`` is a decision."""
    if isinstance(width, int):
        sch.vectorize(lanes)
        return [], lanes
    part, lane = sch.split(lanes, [None, width])
    sch.vectorize(lane)
    return [part], lane
