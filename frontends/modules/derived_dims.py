"""Ranges of dimensions of which multiples are open, ``32 * h``: PyTorch narrows them unasked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.utils._sympy.numbers import int_oo

from tvm_sparse.frontends.modules.open_axes import Call, inputs_of, open_axes


def refuse_narrower(
    module: nn.Module, program: torch.export.ExportedProgram, call: Call, shapes: Any
) -> None:
    """Refuse a program that leaves out sizes that the ranges of derived dimensions have.

    PyTorch refuses one that leaves out sizes of a plain dimension, or takes two for one. That it
    begins at two where the range begins at one is no reason to: its extents always do.

    Raises
    ------
    ValueError
        As PyTorch says it of plain dimensions.
    """
    roots = dict(_roots(module, program, call, shapes))
    ranges = program.range_constraints
    found = [narrower(dim, ranges[s], first=max(dim.min, _LEAST)) for dim, s in roots.items()]
    named = zip(roots, found, strict=True)
    fixes = [f"  {dim.__name__} = {spelled}" for dim, spelled in named if spelled]
    if fixes or len(set(roots.values())) < len(roots):
        raise ValueError("\n".join(["Constraints violated!", "Suggested fixes:", *fixes]))


def narrower(dim: Any, limits: Any, *, first: Any) -> str:
    """Return ``dim`` in ``limits``, as it is written, if these leave out ``first`` or its end."""
    low, high = int(limits.lower), int_oo if limits.upper >= int_oo else int(limits.upper)
    if not (first < low or int_oo > dim.max > high):
        return ""
    ends = f"min={max(low, dim.min)}" + ("" if high >= int_oo else f", max={high}")
    return f"Dim('{dim.__name__}', {ends})"


def has_derived(module: nn.Module, call: Call, shapes: Any) -> bool:
    """Whether a multiple of a dimension is open."""
    axes = open_axes(module, call, shapes)
    return any(hasattr(dim, "root") for own in axes for dim in own.values())


_LEAST = 2
"""Where the range of an extent begins that PyTorch does not take for a number."""


def _roots(
    module: nn.Module, program: torch.export.ExportedProgram, call: Call, shapes: Any
) -> Iterator[tuple[Any, Any]]:
    """Yield the dimension that each derived one is a multiple of, and its symbol in ``program``."""
    for node, axes in zip(inputs_of(program), open_axes(module, call, shapes), strict=True):
        for axis, dim in axes.items():
            root = getattr(dim, "root", None)
            extent = node.meta["val"].shape[axis]
            if root is not None and isinstance(extent, torch.SymInt):
                (symbol,) = extent.node.expr.free_symbols
                yield root, symbol
