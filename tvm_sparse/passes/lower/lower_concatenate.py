"""Concatenations become definitions whose pieces vector code can tell apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax

from tvm_sparse.ops.tensors.concatenate import concatenate
from tvm_sparse.passes.graph.rewrite import Rewriter, op_name, rewrite, shape_of


def joined(rewriter: Rewriter, call: relax.Call) -> tuple[list[Any], int] | None:
    """Return the pieces and the axis of ``call``, if it joins tensors of static extents."""
    if op_name(call) != "concat":
        return None
    operands = rewriter.resolve(call.args[0])
    rank = len(shape_of(call) or ())
    if not isinstance(operands, relax.Tuple) or rank == 0 or len(operands.fields) < 2:
        return None
    axis = 0 if call.attrs.axis is None else int(call.attrs.axis) % rank
    extents = [(shape_of(field) or [None] * rank)[axis] for field in operands.fields]
    if not all(isinstance(extent, int) for extent in extents):
        return None
    return list(operands.fields), axis


def _lower(rewriter: Rewriter, call: relax.Call) -> Any | None:
    found = joined(rewriter, call)
    if found is None:
        return None
    pieces, axis = found
    return rewriter.builder_.call_te(
        lambda *tensors: concatenate(tensors, axis), *pieces, primfunc_name_hint="concatenate"
    )


@tvm.transform.module_pass(opt_level=0, name="LowerConcatenate")
@dataclass(frozen=True)
class LowerConcatenate:
    """Replace concatenations along an axis of static extents by definitions of ours.

    before: ``concat((a, b, c), axis)`` --> after: ``call_tir(concatenate, (a, b, c))``
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return the lowered module."""
        return rewrite(mod, _lower)
