"""What PyTorch asks of sizes only when it runs: that what is written into a slice fills it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sympy
import torch
from torch import fx
from torch.utils._sympy.functions import FloorDiv, Max, Min

from tvm_sparse.frontends.program.asked_conditions import Condition
from tvm_sparse.frontends.program.operator_names import operator_name

aten = torch.ops.aten


def fill_what_they_write(program: torch.export.ExportedProgram) -> list[Condition]:
    """Return the conditions under which the sources of ``program`` have the size of their slice.

    PyTorch's exporter takes any size: it asks when ``slice_scatter`` runs, and for the place of
    ``select_scatter``.
    """
    found: list[Condition] = []
    for node in program.graph.find_nodes(op="call_function", target=aten.slice_scatter.default):
        found += _conditions(node, *_slice(*node.args, **node.kwargs))
    for node in program.graph.find_nodes(op="call_function", target=aten.select_scatter.default):
        found += _conditions(node, *_place(*node.args, **node.kwargs))
    return found


def _conditions(node: fx.Node, *expressions: Any) -> Iterator[Condition]:
    """Yield what is not true of all sizes, or of none."""
    for expression in expressions:
        if getattr(expression, "free_symbols", None):
            yield Condition(expression, f"operator '{operator_name(node.target)}'")


def _slice(  # noqa: PLR0917 (the operator's own signature)
    x: fx.Node,
    source: fx.Node,
    dim: int = 0,
    start: Any = None,
    end: Any = None,
    step: int = 1,
) -> tuple[Any, ...]:
    """Return that the source has as many elements as the slice."""
    extent, first, last = (_expression(v) for v in (x.meta["val"].shape[dim], start or 0, end))
    if extent is None or first is None or (end is not None and last is None):
        return ()
    last = extent if last is None else last
    first, last = (Min(Max(_counted(place, extent), 0), extent) for place in (first, last))
    count = FloorDiv(Max(last - first, 0) + step - 1, step)
    return (sympy.Eq(_expression(source.meta["val"].shape[dim]), count),)


def _place(x: fx.Node, _source: fx.Node, dim: int, index: Any) -> tuple[Any, ...]:
    """Return that there is such a place."""
    extent, place = _expression(x.meta["val"].shape[dim]), _expression(index)
    return () if extent is None or place is None else (place < extent, place >= -extent)


def _counted(place: Any, extent: Any) -> Any:
    """Return a place counted from the begin, of one whose sign is known."""
    return place + extent if place.is_negative else place


def _expression(value: Any) -> Any | None:
    """Return a number, or an expression of open extents; None for numbers that a tensor holds."""
    value = value.meta.get("val") if isinstance(value, fx.Node) else value
    if isinstance(value, torch.SymInt):
        return value.node.expr
    return sympy.Integer(value) if isinstance(value, int) else None
