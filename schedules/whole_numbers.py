"""Divisions of numbers that are never negative by open extents."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import tirx

from tvm_sparse.schedules.blocks import nodes


def whole_numbers(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return ``func`` whose loop variables are divided by open extents as C divides.

    before: ``floordiv(floormod(i, b * n), n)`` --> after: ``truncdiv(truncmod(i, b * n), n)``

    Loops begin at zero, and one over no steps divides nothing, so both are the same. TVM does not
    know the sign of an extent: it would ask for it in each division, and each place of a tensor
    with borders has several of them, one in the other. Simplifying such places took minutes.
    """
    counted = {loop.loop_var for loop in nodes(func.body, tirx.For) if _is_zero(loop.min)}

    def whole(value: Any) -> bool:
        if isinstance(value, tirx.FloorMod | tirx.FloorDiv | tirx.Mod | tirx.Div):
            return whole(value.a)
        return isinstance(value, tirx.Var) and value in counted

    def truncated(node: Any, operator: Any) -> Any:
        numbers = tirx.analysis.undefined_vars(node.b)
        plain = numbers and not any(var in counted for var in numbers)
        return operator(node.a, node.b) if plain and whole(node.a) else node

    body = func.body
    for kind, operator in ((tirx.FloorMod, tirx.truncmod), (tirx.FloorDiv, tirx.truncdiv)):
        body = tvm_ffi.structural_map(body, (kind, lambda n, op=operator: truncated(n, op)))
    return tirx.PrimFunc(func.params, body, func.ret_type, attrs=func.attrs)


def _is_zero(value: Any) -> bool:
    return isinstance(value, tirx.IntImm) and int(value) == 0
