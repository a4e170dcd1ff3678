"""Bounds of loops that TVM cuts off in the wrong place."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx.analysis import undefined_vars

from tvm_sparse.schedules.blocks import map_functions

_EXTREMES = (tirx.Min, tirx.Max)
_COMPARISONS = (tirx.LT, tirx.LE, tirx.GT, tirx.GE)


@tvm.transform.module_pass(opt_level=0, name="OpaqueBounds")
class OpaqueBounds:
    """Keep extremes of open extents whole where indices are compared with them.

    before: ``if i < T.min(T.max(n // 256, 1), m)``
    after: ``if i < T.reinterpret("int64", T.min(T.max(n // 256, 1), m))``

    TVM's simplifier makes ``(i < n // 256 or i < 1) and i < m`` of the former, and its partition of
    loops then runs a first tile without any condition: it stored beyond the tensor.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with such extremes behind a call that TVM does not look into."""
        return map_functions(mod, _opaque)


def _opaque(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return ``func`` with its extremes of open extents hidden in comparisons."""
    found: list[Any] = []
    tvm_ffi.structural_walk(func.body, (_EXTREMES, found.append))
    if not any(map(_is_of_extents, found)):
        return func

    def whole(node: Any) -> Any:
        if not _is_of_extents(node):
            return node
        return tirx.call_intrin(str(node.ty.dtype), "tirx.reinterpret", node)

    def compared(node: Any) -> Any:
        sides = (tvm_ffi.structural_map(side, (_EXTREMES, whole)) for side in (node.a, node.b))
        return type(node)(*sides)

    body = tvm_ffi.structural_map(func.body, (_COMPARISONS, compared))
    return tirx.PrimFunc(func.params, body, func.ret_type, attrs=func.attrs)


def _is_of_extents(node: Any) -> bool:
    """Whether an extreme may be one of open extents: floats are never indices."""
    return str(node.ty.dtype) in ("int32", "int64") and bool(undefined_vars(node))
