"""Decisions of a schedule rule: fixed by default, variables of the trace when tunable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import s_tir


def choose(sch: s_tir.Schedule, options: Sequence[int], default: int, tunable: bool) -> Any:
    """Return ``default``, or a variable that takes one of ``options`` (``default`` at first)."""
    values = sorted({*options, default})
    if not tunable or len(values) == 1:
        return default
    shares = [1.0 / len(values)] * len(values)
    return sch.sample_categorical(values, shares, decision=values.index(default))


MOST = 1 << 20
"""No limit to the inner factor."""


def near_and_far(
    sch: s_tir.Schedule, loop: Any, tunable: bool, *, far: bool
) -> tuple[list[Any], list[Any]]:
    """Split ``loop`` for the caches: ``(far, near)`` loops, for all of which one list has none.

    Not tunable, ``loop`` itself is far or near, as ``far`` says. Tunable, it becomes two loops,
    and their extents a decision that begins with the whole loop on that same side.
    """
    static = hasattr(sch.get(loop).extent, "value")
    if not tunable or not static:
        return ([loop], []) if far else ([], [loop])
    extent = int(sch.get(loop).extent)
    begin = [extent, 1] if far else [1, extent]
    tiles = sch.sample_perfect_tile(loop, 2, max_innermost_factor=MOST, decision=begin)
    outer, inner = sch.split(loop, tiles)
    return [outer], [inner]
