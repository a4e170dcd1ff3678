"""Threads share a plane evenly, though its rows cannot be."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import tvm
import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.sym import Analyzer

from tvm_sparse.schedules.blocks import PARALLEL, map_functions, nodes
from tvm_sparse.schedules.cpu.overlap_tiles import terms
from tvm_sparse.schedules.variables import placed

PART = "ts.part"
"""Loop annotation: over the steps that one of so many threads has of an axis, the last one less."""


@tvm.transform.module_pass(opt_level=0, name="EvenParts")
class EvenParts:
    """Split the step between two parts by the blocks of channels around it.

    before: ``for t in T.parallel(2): for c in 24: for y in 4: row(4 t + y, c) if 4 t + y < 7``
    after:  ``for t in T.parallel(2): for c in 24: for y in range((84 t - c + 23) // 24,
            (84 t + 84 - c + 23) // 24): row(y, c)``

    Of seven rows, one thread has the first three, the other one the last three, and each has the
    fourth of half the channels. Whole rows would be four and three.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with even parts."""
        return map_functions(mod, _even)


def _even(func: tirx.PrimFunc) -> tirx.PrimFunc:
    loops = nodes(func.body, tirx.For)
    if not any(PART in loop.annotations for loop in loops):
        return func

    def shared(loop: tirx.For) -> Any:
        if PART not in loop.annotations:
            return loop
        around = [x for x in loops if any(y.same_as(loop) for y in nodes(x.body, tirx.For))]
        return _shared(loop, sorted(around, key=lambda x: -len(nodes(x.body, tirx.For))))

    body = tvm_ffi.structural_map(func.body, (tirx.For, shared))
    return tirx.PrimFunc(func.params, body, func.ret_type, attrs=func.attrs)


def _shared(loop: tirx.For, around: list[tirx.For]) -> tirx.For:
    """Return ``loop``, within the loops ``around`` it, over the steps of an even part."""
    notes = {key: note for key, note in loop.annotations.items() if key != PART}
    threads, analyzer = int(loop.annotations[PART]), Analyzer()
    for x in (*around, loop):
        if isinstance(x.extent, tirx.IntImm):
            analyzer.bind(x.loop_var, ir.Range.from_min_extent(x.min, x.extent))
    found = _condition(loop, analyzer)
    first, extent, var, body = loop.min, loop.extent, loop.loop_var, loop.body
    if found is not None:
        start, steps = found
        *_, place = (n for n, x in enumerate(around) if int(x.kind) == PARALLEL)
        blocks = [x for x in around[place + 1 :] if isinstance(x.extent, tirx.IntImm)]
        count = math.prod(int(x.extent) for x in blocks)
        block: Any = tirx.const(0, str(var.ty.dtype))
        for x in blocks:
            block = block * x.extent + x.loop_var
        part = analyzer.simplify(tirx.floordiv(start, loop.extent))
        ends = [
            tirx.floordiv(
                tirx.floordiv((part + n) * (steps * count), threads) - block + (count - 1), count
            )
            for n in (0, 1)
        ]
        first, extent = analyzer.simplify(ends[0]), analyzer.simplify(ends[1] - ends[0])
        var = tirx.Var(var.name, str(var.ty.dtype))
        domain = ir.Range.from_min_extent(*(tirx.const(n, str(var.ty.dtype)) for n in (0, steps)))
        analyzer.bind(var, domain)
        body = _unconditional(placed(body, {loop.loop_var: var - start}), analyzer)
    return tirx.For(var, first, extent, loop.kind, body, None, notes, loop.step)


def _condition(loop: tirx.For, analyzer: Analyzer) -> tuple[Any, int] | None:
    """Return where the part of ``loop`` starts on its axis, and how many steps that has.

    ``None`` if blocks have other conditions: the axis ends with a part, or not all blocks know of
    its end.
    """
    found: list[tuple[Any, int] | None] = [
        next((c for c in map(partial(_start, loop, analyzer), terms(realize.predicate)) if c), None)
        for realize in nodes(loop.body, s_tir.SBlockRealize)
    ]
    first, *others = found
    if first is None:
        return None
    same = (c and c[1] == first[1] and analyzer.can_prove_equal(c[0], first[0]) for c in others)
    return first if all(same) else None


def _start(loop: tirx.For, analyzer: Analyzer, term: Any) -> tuple[Any, int] | None:
    """Return the start and the steps of which ``term`` is the condition."""
    if not isinstance(term, tirx.LT) or not isinstance(term.b, tirx.IntImm):
        return None
    start = analyzer.simplify(placed(term.a, {loop.loop_var: 0}))
    known = analyzer.can_prove_equal(term.a, start + loop.loop_var)
    return (start, int(term.b)) if known else None


def _unconditional(body: Any, analyzer: Analyzer) -> Any:
    """Return ``body`` without the conditions that are always true."""

    def free(realize: Any) -> Any:
        left = [analyzer.simplify(term) for term in terms(realize.predicate)]
        predicate: Any = tirx.const(True, "bool")
        for term in left:
            if not analyzer.can_prove(term):
                predicate = (
                    term if isinstance(predicate, tirx.IntImm) else tirx.And(predicate, term)
                )
        values = [analyzer.simplify(value) for value in realize.iter_values]
        return s_tir.SBlockRealize(values, predicate, realize.block)

    return tvm_ffi.structural_map(body, (s_tir.SBlockRealize, free))
