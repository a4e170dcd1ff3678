"""Vectors that reach beyond an extent are shorter vectors, not lanes with conditions."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.sym import Analyzer

from tvm_sparse.schedules.blocks import VECTORIZED, map_functions
from tvm_sparse.schedules.cpu.overlap_tiles import terms
from tvm_sparse.schedules.variables import placed, uses


@tvm.transform.module_pass(opt_level=0, name="PartialVectors")
class PartialVectors:
    """Let conditions of lanes choose between a whole vector and what is left of the last one.

    before: ``for lane in T.vectorized(16): if 16 * t + lane < 152: y[16 * t + lane] = 1``
    after:  ``if 16 * t + 15 < 152: y[16 * t : 16 * t + 16] = 1``
            ``elif 16 * t < 152: y[16 * t : 16 * t + 8] = 1``

    TVM makes a loop over scalars of a vector whose lanes have conditions. LLVM takes half a minute
    for an unrolled tile of them.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with shorter vectors at the ends of tensors."""
        return map_functions(mod, _shortened)


def _shortened(func: tirx.PrimFunc) -> tirx.PrimFunc:
    analyzer = Analyzer()

    def see(loop: tirx.For) -> None:
        if hasattr(loop.extent, "value"):
            analyzer.bind(loop.loop_var, ir.Range.from_min_extent(loop.min, loop.extent))

    tvm_ffi.structural_walk(func.body, (tirx.For, see))
    body = tvm_ffi.structural_map(func.body, (tirx.For, lambda loop: _split(loop, analyzer)))
    return (
        func
        if body.same_as(func.body)
        else tirx.PrimFunc(func.params, body, func.ret_type, attrs=func.attrs)
    )


def _split(loop: tirx.For, analyzer: Analyzer) -> Any:
    """Return a vector whose lanes have one condition as two vectors without it."""
    realize = loop.body
    if int(loop.kind) != VECTORIZED or not isinstance(realize, s_tir.SBlockRealize):
        return loop
    lanes = int(loop.extent)
    conditions = list(terms(realize.predicate))
    ends = [term for term in conditions if uses(term, loop.loop_var)]
    found = _start(ends[0], loop, analyzer) if len(ends) == 1 else None
    if found is None:
        return loop
    start, extent = found
    others = [term for term in conditions if not term.same_as(ends[0])]
    predicate = tirx.all(*others) if others else tirx.const(True)
    left = extent % lanes
    if left == 1:
        return loop  # a single element's place is one number, which TVM then uses outside of loops
    rest = None
    if left:
        rest = tirx.IfThenElse(start < extent, _vector(loop, left, predicate), None)
    return tirx.IfThenElse(start < extent - lanes + 1, _vector(loop, lanes, predicate), rest)


def _start(condition: Any, loop: tirx.For, analyzer: Analyzer) -> tuple[Any, int] | None:
    """Return the index of the first lane, a multiple of the lanes, and the extent it is below."""
    if not isinstance(condition, tirx.LT) or not hasattr(condition.b, "value"):
        return None
    index, lane = condition.a, loop.loop_var
    start = analyzer.simplify(placed(index, {lane: 0}))
    steps = analyzer.modular_set(start)
    size = int(loop.extent)
    whole = steps.coeff % size == 0 and steps.base % size == 0
    if not whole or not analyzer.can_prove_equal(index, start + lane):
        return None
    return start, int(condition.b)


def _vector(loop: tirx.For, lanes: int, predicate: Any) -> tirx.For:
    """Return the first ``lanes`` of a vector under another condition."""
    old, realize = loop.loop_var, loop.body
    lane = tirx.Var(old.name, str(old.ty.dtype))
    again = s_tir.SBlockRealize(realize.iter_values, predicate, realize.block)
    body = placed(again, {old: lane})
    extent = tirx.const(lanes, str(old.ty.dtype))
    return tirx.For(lane, loop.min, extent, loop.kind, body, None, loop.annotations, loop.step)
