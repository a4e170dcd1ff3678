"""Extents that are computed from open ones, and variables in their place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tvm_ffi
from tvm import tirx

from tvm_sparse.passes.graph.rewrite import same_extent


def computed_extents(extents: Iterable[Any]) -> list[tuple[Any, tirx.Var]]:
    """Return those that are no number and no symbol, each once, the longest first, with a name."""
    found: list[Any] = []
    for extent in extents:
        known = isinstance(extent, int | tirx.Var | tirx.IntImm)
        if not known and not any(same_extent(extent, other) for other in found):
            found.append(extent)
    longest = sorted(found, key=lambda extent: -len(str(extent)))
    return [(extent, tirx.Var(f"n{i}", str(extent.ty.dtype))) for i, extent in enumerate(longest)]


def with_extents(func: tirx.PrimFunc, names: Iterable[tuple[Any, tirx.Var]]) -> tirx.PrimFunc:
    """Return a function with the computed extents of ``names`` for their variables."""
    for extent, var in names:

        def placed(part: Any, extent: Any = extent, var: tirx.Var = var) -> Any:
            return extent if part.same_as(var) else part

        func = tvm_ffi.structural_map(func, (tirx.Var, placed))
    return func


def with_variables(node: Any, names: Iterable[tuple[Any, tirx.Var]]) -> Any:
    """Return a function or an expression with the variables of ``names`` for computed extents."""
    for extent, var in names:

        def placed(part: Any, extent: Any = extent, var: tirx.Var = var) -> Any:
            return var if same_extent(part, extent) else part

        node = tvm_ffi.structural_map(node, (type(extent), placed))
    return node
