"""Engines that multiply whole tiles of bytes: rows of activations by blocks of features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class TileUnit:
    """How a machine multiplies tiles; operators call it once for all that a tile of sums adds up.

    Parameters
    ----------
    code
        Given the bytes of a step, the name of a function and its text in LLVM's language. The
        function is ``void f(sums, sums_pitch, x, x_pitch, w, w_pitch, rows, blocks, outer,
        outer_pitch, inner, inner_pitch, steps)``: all but the three pointers are ``int32``, pitches
        are bytes. TVM writes it out where it is called. It writes ``blocks`` of 16 sums of 32 bits
        in each of ``rows`` rows of ``sums``: products of ``x`` and ``w``, added up over ``outer``
        times ``inner`` windows of ``x`` that lie a pitch apart, and ``steps`` side by side in each
        of them. Weights follow one another in the order of ``DenseFormat``, those of the next block
        ``w_pitch`` behind.
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
    rows: int = 32
    sums: int = 4096
    step: int = 64
    begin: float = 7.0
    cost: float = 0.3

    def step_of(self, size: int) -> int:
        """Return the bytes of the longest step of whole words that divides ``size``, or 0."""
        return max((s for s in range(4, self.step + 1, 4) if size % s == 0), default=0)
