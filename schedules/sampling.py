"""Decisions of a schedule rule: fixed by default, variables of the trace when tunable."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm import s_tir, tirx

from tvm_sparse.schedules.blocks import LoopRV


def choose(sch: s_tir.Schedule, options: Sequence[int], default: int, tunable: bool) -> Any:
    """Return ``default``, or a variable that takes one of ``options`` (``default`` at first)."""
    values = sorted({*options, default})
    if not tunable or len(values) == 1:
        return default
    shares = [1.0 / len(values)] * len(values)
    return sch.sample_categorical(values, shares, decision=values.index(default))


MOST = 1 << 20
"""No limit to the inner factor."""


def factors(sch: s_tir.Schedule, loop: LoopRV, inner: Sequence[int], tunable: bool) -> list[Any]:
    """Return the factors of a split of ``loop``: the outer one, then ``inner``.

    Tunable, a loop of static extent that ``inner`` divides has all of its factorizations instead,
    which begin with this one.
    """
    value = sch.get(loop).extent
    extent, size = int(value) if isinstance(value, tirx.IntImm) else 0, math.prod(inner)
    if not tunable or not extent or extent % size:
        return [None, *inner]
    begin = [extent // size, *inner]
    tiles: list[Any] = sch.sample_perfect_tile(
        loop, len(begin), max_innermost_factor=MOST, decision=begin
    )
    return tiles


def near_and_far(
    sch: s_tir.Schedule, loop: LoopRV, tunable: bool, *, near: int | None
) -> tuple[list[Any], list[Any]]:
    """Split ``loop`` for the caches into ``(far, near)`` loops, each a list of at most one.

    ``near``, a divisor of the loop's extent, is that of the near loop; ``None`` is all of it. Where
    one loop would have a single step, ``loop`` itself is the other. Tunable, a loop of static
    extent becomes two in any case, and their extents a decision that begins with ``near``.
    """
    value = sch.get(loop).extent
    extent = int(value) if isinstance(value, tirx.IntImm) else None
    if extent is None or not tunable:
        if near == 1:
            return [loop], []
        if near in (None, extent):
            return [], [loop]
    tiles: Any = [None, near]
    if tunable and extent is not None:
        begin = [extent // (near or extent), near or extent]
        tiles = sch.sample_perfect_tile(loop, 2, max_innermost_factor=MOST, decision=begin)
    outer, inner = sch.split(loop, tiles)
    return [outer], [inner]
