"""Reductions over open extents begin with their initial value, also where there is no element."""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.rule import is_written


@tvm.transform.module_pass(opt_level=0, name="HoistInits")
class HoistInits:
    """Write the initial value of a reduction before its loops, where one has an open extent.

    before: ``for k in range(n): with init(): y[i] = 0; y[i] += x[i, k]``
    after: ``y[i] = 0; for k in range(n): y[i] += x[i, k]``

    TVM writes the initial value in the first step: of ``x[:, 1:]`` with one column there is none.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with initial values before open loops."""
        return b.map_functions(mod, hoisted_inits)


def hoisted_inits(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return ``func`` with initial values before open loops."""
    if is_written(func) or not _has_open_loop(func):
        return func
    alone = tvm.IRModule({"main": func.with_attr("global_symbol", "main")})
    sch = s_tir.Schedule(alone, error_render_level="none")
    before = sch.mod["main"].body
    for block in b.all_blocks(sch):
        found = sch.get(block)
        own = [r for r in _realizes(sch.mod["main"]) if r.block.same_as(found)]
        reduced = [v for realize in own for v in _reduced(realize)]
        loops = [
            loop
            for loop in sch.get_loops(block)
            if any(v.same_as(sch.get(loop).loop_var) for v in reduced)
        ]
        if any(not isinstance(sch.get(loop).extent, tirx.IntImm) for loop in loops):
            sch.decompose_reduction(block, loops[0])
    body = sch.mod["main"].body
    if body.same_as(before):
        return func
    return tirx.PrimFunc(func.params, body, func.ret_type, attrs=func.attrs)


def _has_open_loop(func: tirx.PrimFunc) -> bool:
    loops: list[tirx.For] = []
    tvm_ffi.structural_walk(func.body, (tirx.For, loops.append))
    return any(not isinstance(loop.extent, tirx.IntImm) for loop in loops)


def _realizes(func: tirx.PrimFunc) -> list[s_tir.SBlockRealize]:
    found: list[s_tir.SBlockRealize] = []
    tvm_ffi.structural_walk(func.body, (s_tir.SBlockRealize, found.append))
    return [realize for realize in found if realize.block.init is not None]


def _reduced(realize: s_tir.SBlockRealize) -> list[tirx.Var]:
    """Return the variables that the axes of a reduction are computed from."""
    pairs = zip(realize.block.iter_vars, realize.iter_values, strict=True)
    values = [value for v, value in pairs if int(v.iter_type) == b.REDUCTION]
    return [v for value in values for v in tirx.analysis.undefined_vars(value)]
