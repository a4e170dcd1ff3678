"""Engines that multiply whole tiles of bytes: rows of activations by blocks of features.

An engine comes as functions in LLVM's language, which TVM writes out where they are called. Their
numbers are ``int32``, pitches are bytes, sums have 32 bits. A block is 16 features. The first
arguments are ``sums, sums_pitch, x, x_pitch``: where the first row of sums and of activations is,
and how far the next row is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class TileUnit:
    """How a machine multiplies tiles; operators call it once for all that a tile of sums adds up.

    Parameters
    ----------
    code
        Given the bytes of a step, the name and the text of ``void f(…, w, w_pitch, rows, blocks,
        outer, outer_pitch, inner, inner_pitch, steps)``. It writes ``blocks`` of sums in each of
        ``rows`` rows: products of ``x`` and ``w``, added up over ``outer`` times ``inner`` windows
        of ``x`` that lie a pitch apart, and ``steps`` side by side in each of them. Weights follow
        one another in the order of ``DenseFormat``, those of the next block ``w_pitch`` behind.
    kept
        Given the bytes of a step and the blocks of a slot, 1 or 2, the same of ``void f(…, w,
        places, starts, rows, slots, outer_pitch)``. It writes the blocks of each slot: for slot
        ``s`` the steps ``starts[s]`` to ``starts[s + 1]`` are added up, if there are any. Step
        ``e`` begins ``places[2 * e] * outer_pitch + places[2 * e + 1]`` bytes behind ``x``, its
        weights ``e`` times their size behind ``w``: a group of four bytes after another, each of
        all features of the slot.
    rows
        Most rows of a call.
    sums
        Most sums of a call: they stay in the first cache.
    step
        Most bytes of a row that a step multiplies.
    begin
        Steps of all rows that take as long as a call without steps.
    cost
        A multiply-add relative to one of the dense operator, in tiles of all rows.
    """

    code: Callable[[int], tuple[str, str]]
    kept: Callable[[int, int], tuple[str, str]]
    rows: int = 32
    sums: int = 4096
    step: int = 64
    begin: float = 7.0
    cost: float = 0.3

    def step_of(self, size: int) -> int:
        """Return the bytes of the longest step of whole words that divides ``size``, or 0."""
        return max((s for s in range(4, self.step + 1, 4) if size % s == 0), default=0)
