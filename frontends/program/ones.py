"""Open extents of one and of zero: PyTorch traces for two or more, other sizes are tried here.

``squeeze`` of an open extent is traced as what leaves it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import sympy
import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy.value_ranges import ValueRanges

from tvm_sparse.frontends.program.asked_conditions import Condition
from tvm_sparse.frontends.program.decided_extents import opened_in, size_of


def unlike_at_one(program: torch.export.ExportedProgram) -> list[Condition]:
    """Return conditions that keep ``program`` from sizes of one at which its shapes are others.

    Every operator is run on shapes alone, with each open extent at one and with all of them.
    """
    sizes = traced_at(program)
    ranges = program.range_constraints
    ones = [symbol for symbol in sizes if symbol in ranges and ranges[symbol].lower <= 1]
    found: list[Condition] = []
    rows = [[symbol] for symbol in ones] + ([ones] if len(ones) > 1 else [])
    for row in rows:
        place = "" if found and len(row) > 1 else _differs(program, sizes | dict.fromkeys(row, 1))
        # What differs at two as well is the size of a view, which the program computes itself.
        if place and not _differs(program, sizes | dict.fromkeys(row, 2)):
            found.append(Condition(sympy.Or(*(sympy.Ne(symbol, 1) for symbol in row)), place))
    return found


def without_zeros(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return ``program`` with open extents of one or more, unless it runs with zero in its place.

    ``x[:1]`` of no rows has none; it was traced as one, which would be read from beside ``x``.
    """
    sizes, ranges = traced_at(program), dict(program.range_constraints)
    for symbol, limits in program.range_constraints.items():
        if limits.lower <= 0 and (symbol not in sizes or not _runs(program, {**sizes, symbol: 0})):
            ranges[symbol] = ValueRanges(1, limits.upper)
    result = copy.copy(program)
    result._range_constraints = ranges
    return result


def traced_at(program: torch.export.ExportedProgram) -> dict[Any, int]:
    """Return the size of each symbol in the example; three of one without."""
    found: dict[Any, int] = {}
    for extent in opened_in(program):
        expr = extent.node.expr
        for symbol in expr.free_symbols if _is_linear(expr) else ():
            hint = int(extent.node.hint) if extent.node.has_hint() else None
            found.setdefault(symbol, 3 if hint is None else _solved(expr, symbol, hint))
    return found


def _is_linear(extent: sympy.Expr) -> bool:
    """Whether an extent is a multiple of one symbol, and a number."""
    return len(extent.free_symbols) == 1 and bool(extent.is_polynomial())


def _solved(extent: sympy.Expr, symbol: Any, size: int) -> int:
    """Return ``symbol`` where an extent that is a multiple of it, and a number, has a size."""
    rest = extent.subs(symbol, 0)
    return int((size - rest) / (extent.subs(symbol, 1) - rest))


def _differs(program: torch.export.ExportedProgram, sizes: Mapping[Any, int]) -> str:
    """Return which operator has another shape at ``sizes``, if one has."""
    try:
        _run(program, sizes)
    except UnlikeShapeError as error:
        return str(error)
    except Exception:  # shapes alone do not tell
        return ""
    return ""


def _runs(program: torch.export.ExportedProgram, sizes: Mapping[Any, int]) -> bool:
    """Whether every operator runs at ``sizes`` and has the shape that was traced."""
    try:
        _run(program, sizes)
    except Exception:
        return False
    return True


def _run(program: torch.export.ExportedProgram, sizes: Mapping[Any, int]) -> None:
    """Run ``program`` on shapes alone."""
    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())
    with mode, torch.no_grad():
        run = Shapes(program.graph_module, sizes)
        run.run(*_inputs(program, sizes), enable_io_processing=False)


def _inputs(program: torch.export.ExportedProgram, sizes: Mapping[Any, int]) -> Iterator[Any]:
    for node in program.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            shape = [size_of(extent, sizes) for extent in value.shape]
            yield torch.empty(shape, dtype=value.dtype, device=value.device)
        else:
            yield value


class UnlikeShapeError(ValueError):
    """An operator returns another shape than was traced."""


class Shapes(fx.Interpreter):
    """Runs a program, and asserts that each tensor has the shape that was traced."""

    def __init__(self, module: fx.GraphModule, sizes: Mapping[Any, int]) -> None:
        super().__init__(module)
        self.extra_traceback = False
        self._sizes = sizes

    def run_node(self, n: fx.Node) -> Any:
        """Run ``n``."""
        result, traced = super().run_node(n), n.meta.get("val")
        if isinstance(result, torch.Tensor) and isinstance(traced, torch.Tensor):
            wanted = tuple(size_of(extent, self._sizes) for extent in traced.shape)
            if tuple(result.shape) != wanted:
                raise UnlikeShapeError(f"operator '{n.name}'")
        return result
