"""In-register table lookup: pick, for each lane, one of the columns of a bank."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tvm import tirx
from tvm.target import Target

Lookup = Callable[[Any, tuple[Any, ...], Any, Any], Any]
"""``(buffer, row index, first column, indices) -> vector of as many lanes as indices``."""

WIDE = 32
"""Columns of the larger banks, where an instruction looks up in two registers."""


def host_features(target: Target) -> set[str]:
    """Return LLVM's feature names of ``target``."""
    from tvm.target.codegen import llvm_get_cpu_features

    with target:
        return set(llvm_get_cpu_features(target))


def avx512_lookup(buffer: Any, row: tuple[Any, ...], start: Any, index: Any) -> Any:
    """One ``vpermps``: only the low four bits of each index count, so no mask is needed."""
    table = buffer[(*row, tirx.Ramp(start, 1, 16))]
    name = "llvm.x86.avx512.permvar.sf.512"
    return tirx.call_llvm_pure_intrin("float32x16", name, table, index)


def avx512_wide_lookup(buffer: Any, row: tuple[Any, ...], start: Any, index: Any) -> Any:
    """One ``vpermi2ps`` in a bank of 32: only the low five bits of each index count."""
    low, high = (buffer[(*row, tirx.Ramp(start + first, 1, 16))] for first in (0, 16))
    name = "llvm.x86.avx512.vpermi2var.ps.512"
    return tirx.call_llvm_pure_intrin("float32x16", name, low, index, high)


def avx2_lookup(buffer: Any, row: tuple[Any, ...], start: Any, index: Any) -> Any:
    """Two ``vpermps`` of eight lanes for each half of the result; index bit 3 chooses between."""
    name = "llvm.x86.avx2.permps"
    halves = [buffer[(*row, tirx.Ramp(start + first, 1, 8))] for first in (0, 8)]

    def half(first: int) -> Any:
        part = tirx.Shuffle([index], [tirx.const(first + lane, "int32") for lane in range(8)])
        low, high = (tirx.call_llvm_pure_intrin("float32x8", name, t, part) for t in halves)
        bit = tirx.shift_left(part, tirx.Broadcast(tirx.const(28, "int32"), 8))
        return tirx.Select(bit < tirx.Broadcast(tirx.const(0, "int32"), 8), high, low)

    return tirx.Shuffle([half(0), half(8)], [tirx.const(lane, "int32") for lane in range(16)])


def plain_lookup(buffer: Any, row: tuple[Any, ...], start: Any, index: Any, bank: int = 16) -> Any:
    """Index the bank in memory; correct on every target, LLVM chooses the instructions."""
    lanes = 16
    inner = tirx.bitwise_and(index, tirx.Broadcast(tirx.const(bank - 1, "int32"), lanes))
    return buffer[(*row, tirx.Broadcast(tirx.Cast("int32", start), lanes) + inner)]


def lookup_for(target: Target, bank: int = 16) -> Lookup:
    """Return the fastest lookup in a bank of 16 or 32 fp32 columns that ``target`` has."""
    features = host_features(target) if target.kind.name == "llvm" else set()
    if bank == WIDE:
        return avx512_wide_lookup if "avx512f" in features else partial(plain_lookup, bank=bank)
    if "avx512f" in features:
        return avx512_lookup
    return avx2_lookup if "avx2" in features else plain_lookup


def lookup_banks(target: Target) -> tuple[int, ...]:
    """Return the sizes of banks that ``target`` looks up in registers, or the one that works."""
    return (16, WIDE) if lookup_for(target, WIDE) is avx512_wide_lookup else (16,)


def lookup_cost(target: Target, bank: int = 16) -> float:
    """Return what :func:`lookup_for` takes, in multiply-adds of a whole vector.

    Measured over our dense operators of the same target, 128 rows, 75 % zeros.
    """
    costs: dict[Lookup, float] = {
        avx512_lookup: 0.45,
        avx512_wide_lookup: 0.95,
        avx2_lookup: 2.4,
        plain_lookup: 6.7,
    }
    return costs.get(lookup_for(target, bank), costs[plain_lookup])
