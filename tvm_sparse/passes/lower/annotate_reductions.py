"""Reductions hold what comes before them: TVM is told which functions reduce."""

from __future__ import annotations

import math
from dataclasses import dataclass

import tvm
from tvm import s_tir, tirx

from tvm_sparse.ops.marks import FUSION, REDUCTION
from tvm_sparse.passes.graph.rewrite import shape_of_type
from tvm_sparse.schedules import blocks as b

SMALLER = 4
"""Elements of all inputs over those of the output from which a function counts as a reduction."""


@tvm.transform.module_pass(opt_level=0, name="AnnotateReductions")
@dataclass(frozen=True)
class AnnotateReductions:
    """Say of functions with small results that they reduce: TVM fuses what comes before, not after.

    Threads would write what comes before in full, in fp32, and read it again.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with annotations."""
        return b.map_functions(mod, _annotated)


def _annotated(func: tirx.PrimFunc) -> tirx.PrimFunc:
    shapes = [shape_of_type(param.ty) or ["?"] for param in func.params]
    static = all(isinstance(extent, int) for shape in shapes for extent in shape)
    if FUSION in (func.attrs or {}) or len(shapes) < 2 or not static:
        return func
    *inputs, output = map(math.prod, shapes)
    if sum(inputs) < SMALLER * output or not _reduces(func):
        return func
    return func.with_attr(FUSION, REDUCTION)


def _reduces(func: tirx.PrimFunc) -> bool:
    """Whether a block of ``func`` is a reduction."""
    axes = (axis for block in b.nodes(func.body, s_tir.SBlock) for axis in block.iter_vars)
    return any(int(axis.iter_type) == b.REDUCTION for axis in axes)
