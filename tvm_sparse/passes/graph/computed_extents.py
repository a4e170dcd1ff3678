"""Extents of functions: in symbols of their own, and with variables for computed ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.sym import Analyzer

from tvm_sparse.passes.graph.rewrite import same_extent
from tvm_sparse.schedules.variables import placed


def in_own_symbols(shape: Sequence[Any]) -> tuple[Any, ...]:
    """Return extents in fresh symbols, one for equal ones, and those computed from them in these.

    TVM fuses no functions that see one extent as two, or ``3 * n`` in another form. Symbols that
    are no extent themselves stay: functions are handed them. Shapes of one form have equal names.
    """
    plain = dict.fromkeys(e for e in shape if isinstance(e, tirx.Var))
    computed = [e for e in shape if not isinstance(e, int | tirx.Var | tirx.IntImm)]
    others = {v.name for e in computed for v in tirx.analysis.undefined_vars(e) if v not in plain}
    names = (name for i in itertools.count() if (name := f"n{i}") not in others)
    fresh = {var: tirx.Var(next(names), "int64") for var in plain}

    def named(extent: Any) -> Any:
        if isinstance(extent, int | tirx.IntImm):
            return extent
        return tvm_ffi.structural_map(extent, (tirx.Var, lambda v: fresh.get(v, v)))

    return tuple(named(extent) for extent in shape)


def at_extents(shape: Sequence[Any], known: Mapping[str, int]) -> tuple[int, ...]:
    """Return the numbers that extents are where symbols are ``known``; none if one is not."""
    found: list[int] = []
    for extent in shape:
        if isinstance(extent, int):
            found.append(extent)
            continue
        symbols = tirx.analysis.undefined_vars(extent)
        if any(symbol.name not in known for symbol in symbols):
            return ()
        value = Analyzer().simplify(placed(extent, {s: known[s.name] for s in symbols}))
        if not isinstance(value, tirx.IntImm) or int(value) < 1:
            return ()
        found.append(int(value))
    return tuple(found)


def item_at(shape: Sequence[Any], known: Mapping[str, int]) -> tuple[int, ...]:
    """Return the same of one item of an open batch, as items of a closed one run by themselves."""
    found = at_extents(shape, known)
    return found if not found or isinstance(shape[0], int) else (1, *found[1:])


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
