"""x86 with AVX2 or AVX: 16 registers of 256 bits, lookups in eight lanes at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tvm import tirx

from tvm_sparse.machine.costs import FROM_MEMORY, Costs
from tvm_sparse.machine.dot import fused_dot, widened_dot
from tvm_sparse.machine.lookup import plain_lookup, shuffled_bytes, table_in_banks
from tvm_sparse.machine.record import Machine


def lookup_16(buffer: Any, row: tuple[Any, ...], start: Any, index: Any) -> Any:
    """Two ``vpermps`` of eight lanes for each half of the result; index bit 3 chooses between."""
    name = "llvm.x86.avx2.permps"
    halves = [buffer[(*row, tirx.Ramp(start + first, 1, 8))] for first in (0, 8)]

    def half(first: int) -> Any:
        part = tirx.Shuffle([index], [tirx.const(first + lane, "int32") for lane in range(8)])
        low, high = (tirx.call_llvm_pure_intrin("float32x8", name, t, part) for t in halves)
        bit = tirx.shift_left(part, tirx.Broadcast(tirx.const(28, "int32"), 8))
        return tirx.Select(bit < tirx.Broadcast(tirx.const(0, "int32"), 8), high, low)

    return tirx.Shuffle([half(0), half(8)], [tirx.const(lane, "int32") for lane in range(16)])


_BYTES = shuffled_bytes("llvm.x86.avx2.pshuf.b", 256)

AVX2 = Machine(
    name="AVX2",
    features=("avx2",),
    register_bits=256,
    sums=12,
    widths=(512,),  # LLVM cuts them in two
    costs=Costs("shipped for AVX2", ((16, 2.4),), halves=((16, 16.0),), bytes=((16, 0.75),)),
    lookups=(
        ("float32", 16, lookup_16),
        ("bfloat16", 16, plain_lookup(16)),
        ("uint8", 16, _BYTES),
    ),
    table=table_in_banks(_BYTES, 16),
    dots=(("uint8", widened_dot("llvm.x86.avx2.pmadd.wd", 256)),),
    rounds=True,
)

AVX_VNNI = replace(
    AVX2,
    name="AVX-VNNI",
    features=("avx2", "avxvnni"),
    costs=replace(AVX2.costs, bytes=((16, 1.1),)),
    dots=(("uint8", fused_dot("llvm.x86.avx512.vpdpbusd.256", 256)),),
    fused=("uint8",),
)

AVX = replace(
    AVX2,
    name="AVX",
    features=("avx",),
    costs=Costs("shipped for AVX", lookup=((16, FROM_MEMORY),)),
    lookups=(
        ("float32", 16, plain_lookup(16)),
        ("bfloat16", 16, plain_lookup(16)),
        ("uint8", 16, plain_lookup(16)),
    ),
    dots=(),
)
