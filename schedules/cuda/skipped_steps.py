"""Steps of a pipeline that have nothing to multiply are passed over as a whole."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.sym import Analyzer

from tvm_sparse.schedules.blocks import map_functions, static_extent

STAGES = "software_pipeline_stage"
"""Annotation of a pipelined loop: a stage for each of its statements."""


@tvm.transform.module_pass(opt_level=0, name="SkippedSteps")
class SkippedSteps:
    """Take a condition that all blocks of a pipeline's last stage share out of them.

    before: ``for step: { copy; for k: { if c: load; if c: multiply } }``
    after:  ``for step: { copy; if c: for k: { load; multiply } }``

    Loads and products would wait for one another behind conditions of their own.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with such conditions outside."""
        return map_functions(mod, _hoisted)


def _hoisted(func: tirx.PrimFunc) -> tirx.PrimFunc:
    body = tvm_ffi.structural_map(func.body, (tirx.For, _with_condition))
    return tirx.PrimFunc(func.params, body, func.ret_type, attrs=func.attrs)


def _with_condition(loop: tirx.For) -> Any:
    """Return a pipelined loop whose last stage is behind its condition, if it has one."""
    if STAGES not in loop.annotations or not isinstance(loop.body, tirx.SeqStmt):
        return loop
    stages = [int(stage) for stage in loop.annotations[STAGES]]
    statements = list(loop.body.seq)
    *others, last = statements
    if stages[-1] != max(stages) or len(stages) != len(statements):
        return loop
    found = _conditions(last)
    if not found or not all(_equal(found[0], condition) for condition in found):
        return loop
    plain = tvm_ffi.structural_map(last, (s_tir.SBlock, _without_condition))
    body = tirx.SeqStmt([*others, tirx.IfThenElse(found[0], plain, None)])
    kept = (loop.kind, body, loop.thread_binding, loop.annotations)
    return tirx.For(loop.loop_var, loop.min, loop.extent, *kept)


def _conditions(statement: Any) -> list[Any]:
    """Return the conditions of all blocks in ``statement``, of what the loops outside say."""
    analyzer, found = Analyzer(), list[Any]()

    def look(node: tirx.For) -> None:
        if extent := static_extent(node):
            analyzer.bind(node.loop_var, tvm.ir.Range(0, extent))

    def see(realize: s_tir.SBlockRealize) -> None:
        if isinstance(realize.block.body, tirx.IfThenElse):
            found.append(analyzer.simplify(_outside(realize, realize.block.body.condition)))

    tvm_ffi.structural_walk(statement, (tirx.For, look))
    tvm_ffi.structural_walk(statement, (s_tir.SBlockRealize, see))
    return found


def _outside(realize: s_tir.SBlockRealize, expr: Any) -> Any:
    """Return ``expr`` of a block's axes in terms of the loops around it."""
    axes = [axis.var for axis in realize.block.iter_vars]
    values = dict(zip(axes, realize.iter_values, strict=True))
    return tvm_ffi.structural_map(expr, (tirx.Var, lambda var: values.get(var, var)))


def _without_condition(block: s_tir.SBlock) -> s_tir.SBlock:
    body = block.body
    if not isinstance(body, tirx.IfThenElse):
        return block
    fields = (block.iter_vars, block.reads, block.writes, block.name_hint, body.then_case)
    rest = (block.init, block.alloc_buffers, block.match_buffers, block.annotations)
    return s_tir.SBlock(*fields, *rest)


def _equal(a: Any, b: Any) -> bool:
    return bool(tvm_ffi.structural_equal(a, b, map_free_vars=False))
