"""Why an open extent has a narrower range than was asked for, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from tvm_sparse.frontends.model import Model
from tvm_sparse.frontends.program.asked_conditions import Condition


def told_ranges(
    model: Model, program: torch.export.ExportedProgram, narrowing: Sequence[Condition]
) -> tuple[str, ...]:
    """Return a phrase for each extent of ``model`` that the code of the model narrows.

    Parameters
    ----------
    model
        As it was imported from ``program``; its extents have names.
    narrowing
        Conditions on one symbol, each with the place that asks it.
    """
    places: dict[Any, list[str]] = {}
    for condition in narrowing:
        (symbol,) = condition.symbols
        places.setdefault(symbol, []).append(condition.place)
    named = {symbol: name for symbol, name in _names(model, program) if name in model.bounds}
    phrases = []
    for symbol, found in places.items():
        if symbol in named:
            low, high = model.bounds[named[symbol]]
            limits = f"at least {low}" if high is None else f"{low} to {high}"
            why = ", ".join(dict.fromkeys(found))
            phrases.append(f"{named[symbol]} is {limits}: other sizes are another model ({why})")
    return tuple(phrases)


def told_begins(model: Model, least: Mapping[str, int]) -> tuple[str, ...]:
    """Return a phrase for each extent of ``model`` that begins behind its ``least`` size.

    Extents that ``model.ranges`` already tells of are left out.
    """
    told = {phrase.split(" is ")[0] for phrase in model.ranges}
    return tuple(
        f"{name} is at least {low}: for smaller sizes it is another model, or does not run"
        for name, (low, _) in model.bounds.items()
        if name in least and low > least[name] and name not in told
    )


def _names(model: Model, program: torch.export.ExportedProgram) -> Iterator[tuple[Any, str]]:
    """Yield each symbol that is an extent of an input, and what the model calls it."""
    shapes = {spec.name: spec.shape for spec in model.inputs}
    for node in program.graph.find_nodes(op="placeholder"):
        own = shapes.get(node.name, ())
        for extent, name in zip(getattr(node.meta.get("val"), "shape", ()), own, strict=False):
            if isinstance(extent, torch.SymInt) and isinstance(name, str):
                yield extent.node.expr, name
