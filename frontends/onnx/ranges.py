"""Which sizes of open extents a traced program holds for: those that fulfil all its guards.

A trace is made at one size of each extent. PyTorch notes every question about sizes that it asked
on the way, with its answer: these are the guards. The program is right for all sizes that give the
same answers. Guards are made of sums, products, quotients and remainders of extents. So a range is
found by asking them again: size by size next to that of the trace, and at some sizes far away.
A guard of several extents that does not hold in all of it bounds each of them, the others as
they were traced. Where that range is a narrow one, multiples alone are asked: a network that halves
its planes five times, and joins them again, takes multiples of 32.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from tvm_sparse.frontends.onnx.inputs import Range
from tvm_sparse.frontends.program.decided_extents import value_of

LARGEST = 1 << 24
"""A size at which an extent counts as unlimited."""

_NEAR = 96
"""Sizes next to each end of a range that are all asked."""
_SAMPLES = 200
"""Combinations of sizes that guards of several extents are asked with."""

STEPS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Numbers that a size is tried as a multiple of, one after another."""

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
    return int(value_of(found, values))


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
) -> tuple[dict[Any, Range], dict[Any, int]] | None:
    """Return a range for each symbol in which all guards hold, or None where there is none.

    The second result says for which symbols that is so of multiples alone, and of which number.

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
    alone = [guard for guard in guards if len(guard[1]) == 1]
    limits = {s: _noted(program.range_constraints.get(s), wanted[s]) for s in sizes}
    found = _box(alone, sizes, limits)
    if found is None:
        return None
    unfit = [g for g in guards if len(g[1]) > 1 and not _holds_in(*g, *found)]
    if not unfit:
        return found
    found = _box([*alone, *unfit], sizes, limits)
    for guard in unfit:
        found = found and _raised(guard, sizes, *found)
    return found


def only_sizes(
    program: torch.export.ExportedProgram, sizes: Mapping[Any, int], wanted: Mapping[Any, Range]
) -> set[Any]:
    """Return the symbols whose guards hold at the size that they were traced at and at no other.

    Parameters are those of :func:`ranges_of`.
    """
    guards = guards_of(program)
    limits = {s: _noted(program.range_constraints.get(s), wanted[s]) for s in sizes}
    return {
        symbol
        for symbol, size in sizes.items()
        if (own := [guard for guard in guards if guard[1] == (symbol,)])
        and _box(own, {symbol: size}, limits) is None
    }


def _box(
    guards: Sequence[Guard], sizes: Mapping[Any, int], limits: Mapping[Any, Range]
) -> tuple[dict[Any, Range], dict[Any, int]] | None:
    """Return the range and step of each symbol, the other symbols as they were traced."""
    ranges: dict[Any, Range] = {}
    steps: dict[Any, int] = {}
    for symbol, size in sizes.items():
        own = [expr for expr, symbols in guards if symbol in symbols]
        found = _stepped(functools.partial(_holds_at, own, sizes, symbol), size, *limits[symbol])
        if found is None:
            return None
        ranges[symbol], step = found
        if step > 1:
            steps[symbol] = step
    return ranges, steps


def is_wide(limits: Range) -> bool:
    """Whether a range is more than the neighbourhood of the size it was found at."""
    low, high = limits
    return high is None or high >= 2 * low


def _raised(
    guard: Guard, sizes: Mapping[Any, int], ranges: Mapping[Any, Range], steps: Mapping[Any, int]
) -> tuple[dict[Any, Range], dict[Any, int]] | None:
    """Return ranges in which ``guard`` holds: as they are, or one extent from a larger size on.

    A plane of one element, for example, is none where one side is two or more. The size is at most
    the one that was traced; of several extents that is taken which is raised least.
    """
    if _holds_in(*guard, ranges, steps):
        return dict(ranges), dict(steps)
    rises = []
    for symbol in guard[1]:
        low, high = ranges[symbol]
        for k in range(1, sizes[symbol].bit_length()):
            least = low + (steps.get(symbol, 1) << k - 1)
            if least > sizes[symbol]:
                break
            tried = {**ranges, symbol: (least, high)}
            if _holds_in(*guard, tried, steps):
                rises.append((k, least, tried))
                break
    return (min(rises, key=lambda rise: rise[:2])[2], dict(steps)) if rises else None


def _is_int(extent: Any) -> bool:
    return isinstance(extent, int)


def _holds(guards: Sequence[Any], values: Mapping[Any, int]) -> bool:
    return all(bool(value_of(g, values)) for g in guards)


def _holds_at(guards: Sequence[Any], sizes: Mapping[Any, int], symbol: Any, size: int) -> bool:
    return _holds(guards, {**sizes, symbol: size})


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


def _stepped(
    holds: Callable[[int], bool], size: int, low: int, high: int | None
) -> tuple[Range, int] | None:
    """Return a wide range and the least number whose multiples in it hold, else a narrow range."""
    narrow = None
    for step in STEPS:
        if size % step:
            break
        last = None if high is None else high // step
        multiple = functools.partial(_holds_at_multiple, holds, step)
        found = _around(multiple, size // step, -(-low // step), last)
        if found is None:
            continue
        limits = found[0] * step, None if found[1] is None else found[1] * step
        if is_wide(limits):
            return limits, step
        narrow = narrow or (limits if step == 1 else None)
    return None if narrow is None else (narrow, 1)


def _holds_at_multiple(holds: Callable[[int], bool], step: int, count: int) -> bool:
    return holds(count * step)


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


def _holds_in(
    guard: Any, symbols: Sequence[Any], ranges: Mapping[Any, Range], steps: Mapping[Any, int]
) -> bool:
    """Whether a guard of several symbols holds for combinations of sizes in their ranges."""
    draw = random.Random(0)
    by = [steps.get(symbol, 1) for symbol in symbols]
    found = [ranges[symbol] for symbol in symbols]
    spans = [
        (low // step, low // step + _NEAR * 10 if high is None else high // step)
        for (low, high), step in zip(found, by, strict=True)
    ]
    ends = itertools.product(*spans)
    drawn = ([draw.randint(*span) for span in spans] for _ in range(_SAMPLES))
    return all(
        _holds([guard], {s: n * step for s, n, step in zip(symbols, values, by, strict=True)})
        for values in itertools.chain(ends, drawn)
    )
