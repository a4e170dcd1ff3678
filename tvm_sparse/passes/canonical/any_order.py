"""Functions that treat axes one by one do the same of a tensor before its transposition."""

from __future__ import annotations

from typing import Any

from tvm import relax, s_tir, tirx

from tvm_sparse.ops.marks import ANY_ORDER
from tvm_sparse.passes.graph.rewrite import Rewriter, add_function
from tvm_sparse.schedules import blocks as b


def in_any_order(rewriter: Rewriter, call: relax.Call) -> bool:
    """Whether ``call`` is one of a function marked :data:`.ANY_ORDER`: of a tensor, and numbers."""
    return ANY_ORDER in (_function(rewriter, call.args[0]).attrs or {})


def _function(rewriter: Rewriter, name: Any) -> tirx.PrimFunc:
    """Return a function of what is swept, or one that the sweep has added."""
    module = rewriter.module
    return module[name] if name in module.functions else rewriter.builder_.get()[name]


def reordered(rewriter: Rewriter, call: relax.Call, inner: Any, axes: list[int]) -> Any:
    """Return what ``call`` is before a transposition: axis ``i`` is ``axes[i]`` of it.

    before: ``call_tir(f, (permute_dims(inner, axes),))``
    after:  ``permute_dims(call_tir(g, (inner,)), axes)``
    """
    name, (_, *numbers) = call.args[0], call.args[1].fields
    sch = s_tir.Schedule(_function(rewriter, name).with_attr("global_symbol", "main"))
    (block,) = b.all_blocks(sch)

    def moved(*index: Any) -> list[Any]:
        return [index[axes.index(axis)] for axis in range(len(axes))]

    order = tirx.IndexMap.from_func(moved, ndim=len(axes), index_dtype="int64")
    for buffer in (("read", 0), ("write", 0)):
        sch.transform_layout(block, buffer, order)
    sch.transform_block_layout(block, order)
    func = add_function(rewriter.builder_, sch.mod["main"], name.name_hint)
    ty = relax.TensorType(moved(*call.ty.shape.values), call.ty.dtype)
    return rewriter.emit(relax.call_tir(func, [inner, *numbers], out_ty=ty))
