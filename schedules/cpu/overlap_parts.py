"""The last thread's part of a plane begins earlier and overlaps the one before, if it is short."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.sym import Analyzer

from tvm_sparse.schedules.blocks import map_functions, nodes
from tvm_sparse.schedules.cpu.overlap_tiles import terms
from tvm_sparse.schedules.variables import placed

PART = "ts.part"
"""Loop annotation: over what one thread has of an axis; the last one has less."""


@tvm.transform.module_pass(opt_level=0, name="OverlapParts")
class OverlapParts:
    """Let the last of uneven parts do again what ends the part before.

    before: ``for t in T.parallel(2): for y in 4: rows[4 t + y] if 4 t + y < 7``
    after:  ``for t in T.parallel(2): for y in 4: rows[min(4 t, 3) + y]``

    All parts take as long as the longest, which the others would wait for anyway, and no step has
    a condition. Two threads write the same values to the rows in the overlap, so a rule marks only
    loops around blocks that start from nothing and read none of what they write elsewhere.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with even parts."""
        return map_functions(mod, _even)


def _even(func: tirx.PrimFunc) -> tirx.PrimFunc:
    loops = nodes(func.body, tirx.For)
    if not any(PART in loop.annotations for loop in loops):
        return func
    analyzer = Analyzer()
    for loop in loops:
        if isinstance(loop.extent, tirx.IntImm):
            analyzer.bind(loop.loop_var, ir.Range.from_min_extent(loop.min, loop.extent))

    def moved(loop: tirx.For) -> Any:
        return _moved(loop, analyzer) if PART in loop.annotations else loop

    body = tvm_ffi.structural_map(func.body, (tirx.For, moved))
    return tirx.PrimFunc(func.params, body, func.ret_type, attrs=func.attrs)


def _moved(loop: tirx.For, analyzer: Analyzer) -> tirx.For:
    """Return ``loop`` without the conditions that keep its part within the axis."""
    step = loop.loop_var
    shift = _shift(loop, analyzer)
    body = loop.body if shift is None else placed(loop.body, {step: step + shift})

    def free(realize: Any) -> Any:
        left: Any = tirx.const(True, "bool")
        for term in terms(realize.predicate):
            if not analyzer.can_prove(term):
                left = tirx.And(left, term) if list(terms(left)) else term
        values = [analyzer.simplify(value) for value in realize.iter_values]
        return s_tir.SBlockRealize(values, left, realize.block)

    body = tvm_ffi.structural_map(body, (s_tir.SBlockRealize, free))
    notes = {key: note for key, note in loop.annotations.items() if key != PART}
    return tirx.For(step, loop.min, loop.extent, loop.kind, body, None, notes, loop.step)


def _shift(loop: tirx.For, analyzer: Analyzer) -> Any | None:
    """Return by how much the part of ``loop`` begins earlier, so that it ends within its axis."""
    step = loop.loop_var
    for realize in nodes(loop.body, s_tir.SBlockRealize):
        for term in terms(realize.predicate):
            if isinstance(term, tirx.LT) and isinstance(term.b, tirx.IntImm):
                start = analyzer.simplify(placed(term.a, {step: 0}))
                if analyzer.can_prove_equal(term.a, start + step):
                    return tirx.min(start, term.b - loop.extent) - start
    return None
