"""Contractions that an engine for tiles makes: sums of a tile, then their epilogue."""

from __future__ import annotations

import tvm_ffi
from tvm import s_tir, tirx
from tvm.sym import Analyzer
from tvm.target import Target

from tvm_sparse.machine.registry import machine_of
from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.contractions.tile_nest import TILES
from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.blocks import BlockRV, LoopRV
from tvm_sparse.schedules.cpu import cores
from tvm_sparse.schedules.isolate import isolate
from tvm_sparse.schedules.rule import ScheduleRule
from tvm_sparse.schedules.variables import placed, uses

WEIGHTS_SHARE = 1 / 2
"""Part of the second cache that weights may fill while rows pass."""


class TilesRule(ScheduleRule):
    """Keep a tile's sums in the first cache until its epilogue has stored them.

    before: contract --> store --> element-wise blocks
    after:  for pass, row tile, feature tile of the pass: { contract; epilogue }

    All rows pass as many weights as the second cache holds.
    """

    marks = (TILES,)

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> s_tir.Schedule | None:
        """Schedule ``func`` if it holds a block marked ``tiles``."""
        del tunable
        sch = s_tir.Schedule(func)
        contract = b.marked(sch, self.marks)
        if contract is None:
            return None
        epilogue = isolate(sch, contract)
        *rows, _, _ = sch.get(contract).writes[0].source.shape
        b.number_rows(sch, epilogue, rows)
        *lead, row, feature = sch.get_loops(contract)
        far, near = sch.split(feature, [None, _calls_of_a_pass(sch, contract, feature, target)])
        outer = [far, *lead, row, near]
        sch.reorder(*outer)
        sch.set_scope(contract, 0, "local")
        sch.reverse_compute_at(epilogue, outer[-1], preserve_unit_loops=True)
        _, lane = sch.split(sch.get_loops(epilogue)[-1], [None, LANES])
        sch.vectorize(lane)
        cores.few_tasks(sch, outer, [], target)
        return s_tir.Schedule(_cut(sch.mod["main"]))


def _cut(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return ``func`` with loops over rows that end where the rows do.

    before: ``for r in 32: if 32 * t + r < rows: y[32 * t + r] = ...``
    after:  ``for r in min(32, rows - 32 * t): y[32 * t + r] = ...``
    """
    analyzer = Analyzer()

    def shorter(loop: tirx.For) -> tirx.For:
        found = list(b.nodes(loop.body, s_tir.SBlockRealize))
        if len(found) != 1 or not isinstance(found[0].predicate, tirx.LT):
            return loop
        (realize,), var = found, loop.loop_var
        position, rows = realize.predicate.a, realize.predicate.b
        start = placed(position, {var: 0})
        if not (uses(position, var) and analyzer.can_prove_equal(position, start + var)):
            return loop
        whole = s_tir.SBlockRealize(realize.iter_values, tirx.const(True, "bool"), realize.block)
        body = tvm_ffi.structural_map(
            loop.body,
            (s_tir.SBlockRealize, lambda node: whole if node.same_as(realize) else node),
        )
        extent = tirx.min(loop.extent, rows - start)
        return tirx.For(var, loop.min, extent, loop.kind, body)

    body = tvm_ffi.structural_map(func.body, (tirx.For, shorter))
    return tirx.PrimFunc(func.params, body, func.ret_type, attrs=func.attrs)


def _calls_of_a_pass(
    sch: s_tir.Schedule, contract: BlockRV, feature: LoopRV, target: Target
) -> int:
    """Return the calls whose weights stay in the second cache while all rows pass."""
    calls, weights = b.extent(sch, feature) or 1, b.nbytes(sch.get(contract).reads[1].source)
    room = machine_of(target).caches.second * WEIGHTS_SHARE
    return max(d for d in b.divisors(calls, calls) if d == 1 or d * weights <= room * calls)
