"""Table lookup: pick, for each lane, one of the columns of a bank of activations."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tvm import tirx

Lookup = Callable[[Any, tuple[Any, ...], Any, Any], Any]
"""``(buffer, row index, first column, indices) -> vector of as many lanes as indices``."""


@functools.cache
def plain_lookup(bank: int) -> Lookup:
    """Return the lookup in memory: correct on every target, LLVM chooses the instructions."""

    def lookup(buffer: Any, row: tuple[Any, ...], start: Any, index: Any) -> Any:
        lanes = int(index.ty.dtype.lanes)
        inner = tirx.bitwise_and(index, tirx.Broadcast(tirx.const(bank - 1, "int32"), lanes))
        return buffer[(*row, tirx.Broadcast(tirx.Cast("int32", start), lanes) + inner)]

    return lookup
