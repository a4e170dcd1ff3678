"""Table lookup: pick, for each lane, one of the columns of a bank of activations."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tvm import tirx

from tvm_sparse.machine.vector import VECTOR_BYTES

Lookup = Callable[[Any, tuple[Any, ...], Any, Any], Any]
"""``(buffer, row index, first column, indices) -> vector of as many lanes as indices``."""


ByteTable = Callable[[Any, Any], Any]
"""``(buffer of 256 bytes, indices) -> bytes``: one for each of :data:`VECTOR_BYTES` indices."""

ENTRIES = 256
"""Entries of a table that has one for each byte."""


@functools.cache
def plain_lookup(bank: int) -> Lookup:
    """Return the lookup in memory: correct on every target, LLVM chooses the instructions."""

    def lookup(buffer: Any, row: tuple[Any, ...], start: Any, index: Any) -> Any:
        lanes = int(index.ty.dtype.lanes)
        index = tirx.Cast(f"int32x{lanes}", index)
        inner = tirx.bitwise_and(index, tirx.Broadcast(tirx.const(bank - 1, "int32"), lanes))
        return buffer[(*row, tirx.Broadcast(tirx.Cast("int32", start), lanes) + inner)]

    return lookup


def repeated(buffer: Any, row: tuple[Any, ...], start: Any, bank: int, lanes: int) -> Any:
    """Return a bank of ``buffer[row]`` as often as it fits ``lanes`` lanes."""
    table = buffer[(*row, tirx.Ramp(start, 1, bank))]
    at = [tirx.const(lane, "int32") for lane in range(lanes)]
    return table if bank == lanes else tirx.Shuffle([table] * (lanes // bank), at)


def shuffled_bytes(name: str, bits: int) -> Lookup:
    """Return the lookup in banks of 16 bytes by ``name``, an instruction on vectors of ``bits``.

    It gives zero where the top bit of an index is set, so only the low four bits are handed over.
    """
    bank, size = 16, bits // 8

    def lookup(buffer: Any, row: tuple[Any, ...], start: Any, index: Any) -> Any:
        lanes = int(index.ty.dtype.lanes)
        table = repeated(buffer, row, start, bank, size)
        inner = tirx.bitwise_and(index, tirx.Broadcast(tirx.const(bank - 1, "uint8"), lanes))
        parts = [
            tirx.call_llvm_pure_intrin(
                f"uint8x{size}",
                name,
                table,
                tirx.Shuffle([inner], [tirx.const(first + i, "int32") for i in range(size)]),
            )
            for first in range(0, lanes, size)
        ]
        whole = [tirx.const(lane, "int32") for lane in range(lanes)]
        return parts[0] if len(parts) == 1 else tirx.Shuffle(parts, whole)

    return lookup


def table_in_banks(lookup: Lookup, bank: int) -> ByteTable:
    """Return how to look up in a table bank after bank; ``lookup`` does so in ``bank`` bytes."""

    def table(buffer: Any, index: Any) -> Any:
        found = lookup(buffer, (), ENTRIES - bank, index)
        for end in range(ENTRIES - bank, 0, -bank):
            low = index < tirx.Broadcast(tirx.const(end, "uint8"), VECTOR_BYTES)
            found = tirx.Select(low, lookup(buffer, (), end - bank, index), found)
        return found

    return table
