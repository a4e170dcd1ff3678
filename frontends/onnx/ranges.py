"""Which sizes of open extents a traced program holds for: those that fulfil all its guards.

A trace is made at one size of each extent. PyTorch notes every question about sizes that it asked
on the way, with its answer: these are the guards. The program is right for all sizes that give the
same answers. Guards are made of sums, products, quotients and remainders of extents, so a range is
found by asking them again, size by size next to that of the trace, and far from it at some.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

from tvm_sparse.frontends.onnx.inputs import Range

LARGEST = 1 << 24
"""A size at which an extent counts as unlimited."""

_NEAR = 96
"""Sizes next to each end of a range that are all asked."""
_SAMPLES = 200
"""Combinations of sizes that guards of several extents are asked with."""

Guard = tuple[Any, tuple[Any, ...]]
"""A condition, and its symbols."""


def settled(extent: Any) -> Any:
    """Return an extent of a traced input as a number, a symbol, or an expression of symbols.

    What the guards say about it counts: a symbol that has to be 10 is 10.
    """
    if isinstance(extent, int):
        return extent
    found = extent.node.shape_env.replace(extent.node.expr)
    return int(found) if found.is_Integer else found


def size_at(extent: Any, values: Mapping[Any, int]) -> int:
    """Return an extent of a traced tensor for ``values`` of the symbols."""
    found = settled(extent)
    if isinstance(found, int):
        return found
    return int(sympy_interp(PythonReferenceAnalysis, dict(values), found))


def guards_of(program: torch.export.ExportedProgram) -> list[Guard]:
    """Return the conditions that ``program`` was traced under, each once."""
    nodes = program.graph.find_nodes(op="placeholder")
    extents = [n for node in nodes for n in getattr(node.meta.get("val"), "shape", ())]
    environments = {id(e): e for e in (n.node.shape_env for n in extents if not _is_int(n))}
    found = dict.fromkeys(e.replace(g.expr) for e in environments.values() for g in e.guards)
    free = ((expr, tuple(sorted(expr.free_symbols, key=str))) for expr in found)
    return [(expr, symbols) for expr, symbols in free if symbols]


def ranges_of(
    program: torch.export.ExportedProgram, sizes: Mapping[Any, int], wanted: Mapping[Any, Range]
) -> dict[Any, Range] | None:
    """Return a range for each symbol in which all guards hold, or None where there is none.

    Parameters
    ----------
    program
        What was traced.
    sizes
        The size of each symbol that it was traced at.
    wanted
        The range of each symbol that is asked for; the result lies inside.
    """
    guards = guards_of(program)
    result: dict[Any, Range] = {}
    for symbol, size in sizes.items():
        alone = [expr for expr, symbols in guards if symbols == (symbol,)]
        low, high = _noted(program.range_constraints.get(symbol), wanted[symbol])
        found = _around(functools.partial(_holds_at, alone, symbol), size, low, high)
        if found is None:
            return None
        result[symbol] = found
    together = [(expr, symbols) for expr, symbols in guards if len(symbols) > 1]
    return result if all(_holds_in(expr, symbols, result) for expr, symbols in together) else None


def _is_int(extent: Any) -> bool:
    return isinstance(extent, int)


def _holds(guards: Sequence[Any], values: Mapping[Any, int]) -> bool:
    return all(bool(sympy_interp(PythonReferenceAnalysis, dict(values), g)) for g in guards)


def _holds_at(guards: Sequence[Any], symbol: Any, size: int) -> bool:
    return _holds(guards, {symbol: size})


def _noted(found: Any, wanted: Range) -> Range:
    """Return the part of ``wanted`` in the range that PyTorch found.

    It takes every extent as two or more until a guard asks for something else.
    """
    low, high = wanted
    if found is not None:
        low = max(low, int(found.lower) if found.lower > 2 else 1)
        if found.upper.is_Integer:
            high = int(found.upper) if high is None else min(high, int(found.upper))
    return low, high


def _around(holds: Callable[[int], bool], size: int, low: int, high: int | None) -> Range | None:
    """Return the range around ``size``, from ``low`` to ``high`` at most, in which ``holds``.

    None if that is ``size`` alone.
    Downwards each size is asked. Upwards those next to ``size`` are, and then those around its
    multiples by powers of two.
    """
    if not holds(size) or size < low or (high is not None and size > high):
        return None
    first = next((n + 1 for n in range(size - 1, low - 1, -1) if not holds(n)), low)
    last = LARGEST if high is None else high
    reached = size
    powers = (size << k for k in range(1, 25))
    rows = (range(n - _NEAR // 2, n + _NEAR // 2) for n in powers if n < last)
    ends = (range(size + 1, size + _NEAR), *rows, range(last - _NEAR, last + 1))
    for n in sorted({n for row in ends for n in row if size < n <= last}):
        if not holds(n):
            end = _end(holds, reached, n)
            return (first, end) if first < end else None
        reached = n
    return first, high


def _end(holds: Callable[[int], bool], inside: int, outside: int) -> int:
    """Return the last size before ``outside`` with which ``holds``, by halves."""
    while outside - inside > 1:
        middle = (inside + outside) // 2
        inside, outside = (middle, outside) if holds(middle) else (inside, middle)
    return inside


def _holds_in(guard: Any, symbols: Sequence[Any], ranges: Mapping[Any, Range]) -> bool:
    """Whether a guard of several symbols holds for combinations of sizes in their ranges."""
    draw = random.Random(0)
    found = [ranges[symbol] for symbol in symbols]
    spans = [(low, low + _NEAR * 10 if high is None else high) for low, high in found]
    ends = itertools.product(*spans)
    drawn = ([draw.randint(*span) for span in spans] for _ in range(_SAMPLES))
    return all(
        _holds([guard], dict(zip(symbols, values, strict=True)))
        for values in itertools.chain(ends, drawn)
    )
