"""x86 with AVX-512: 32 registers of 512 bits, lookups in one or two of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tvm import tirx

from tvm_sparse.machine.costs import Costs
from tvm_sparse.machine.dot import fused_dot, imported_dot, widened_dot
from tvm_sparse.machine.lookup import (
    ENTRIES,
    Lookup,
    repeated,
    shuffled_bytes,
    table_in_banks,
)
from tvm_sparse.machine.pack import pack_512
from tvm_sparse.machine.record import Machine
from tvm_sparse.machine.vector import VECTOR_BYTES


def lookup_16(buffer: Any, row: tuple[Any, ...], start: Any, index: Any) -> Any:
    """One ``vpermps``: only the low four bits of each index count, so no mask is needed."""
    table = buffer[(*row, tirx.Ramp(start, 1, 16))]
    name = "llvm.x86.avx512.permvar.sf.512"
    return tirx.call_llvm_pure_intrin("float32x16", name, table, index)


def lookup_32(buffer: Any, row: tuple[Any, ...], start: Any, index: Any) -> Any:
    """One ``vpermi2ps`` in a bank of 32: only the low five bits of each index count."""
    low, high = (buffer[(*row, tirx.Ramp(start + first, 1, 16))] for first in (0, 16))
    name = "llvm.x86.avx512.vpermi2var.ps.512"
    return tirx.call_llvm_pure_intrin("float32x16", name, low, index, high)


def lookup_64(buffer: Any, row: tuple[Any, ...], start: Any, index: Any) -> Any:
    """Two lookups in 32; the sixth bit of an index says which of them counts."""
    low, high = (lookup_32(buffer, row, start + first, index) for first in (0, 32))
    bit = tirx.bitwise_and(index, tirx.Broadcast(tirx.const(32, "int32"), 16))
    return tirx.Select(bit > tirx.Broadcast(tirx.const(0, "int32"), 16), high, low)


def doubles_lookup(buffer: Any, row: tuple[Any, ...], start: Any, index: Any) -> Any:
    """Two ``vpermi2pd`` in a bank of 16 doubles, eight lanes each."""
    low, high = (buffer[(*row, tirx.Ramp(start + first, 1, 8))] for first in (0, 8))
    name = "llvm.x86.avx512.vpermi2var.pd.512"

    def half(first: int) -> Any:
        lanes = [tirx.const(first + lane, "int32") for lane in range(8)]
        own = tirx.Cast("int64x8", tirx.Shuffle([index], lanes))
        return tirx.call_llvm_pure_intrin("float64x8", name, low, own, high)

    return tirx.Shuffle([half(0), half(8)], [tirx.const(lane, "int32") for lane in range(16)])


def bytes_lookup(bank: int) -> Lookup:
    """Return the lookup in ``bank`` bytes by one ``vpermb``: low six bits of each index count."""

    def lookup(buffer: Any, row: tuple[Any, ...], start: Any, index: Any) -> Any:
        table = repeated(buffer, row, start, bank, 64)
        return tirx.call_llvm_pure_intrin(
            "uint8x64", "llvm.x86.avx512.permvar.qi.512", table, index
        )

    return lookup


def bytes_table(buffer: Any, index: Any) -> Any:
    """Two ``vpermi2b`` in 128 bytes each: low seven bits of an index count, the top one chooses."""

    def half(start: int) -> Any:
        low, high = (
            buffer[tirx.Ramp(start + first, 1, VECTOR_BYTES)] for first in (0, VECTOR_BYTES)
        )
        name = "llvm.x86.avx512.vpermi2var.qi.512"
        return tirx.call_llvm_pure_intrin(f"uint8x{VECTOR_BYTES}", name, low, index, high)

    signed = tirx.reinterpret(f"int8x{VECTOR_BYTES}", index)
    negative = signed < tirx.Broadcast(tirx.const(0, "int8"), VECTOR_BYTES)
    return tirx.Select(negative, half(ENTRIES // 2), half(0))


ZEN_4 = Costs("shipped for Zen 4", lookup=((16, 0.45), (32, 0.95), (64, 2.0)))
"""Measured over our dense operators, 128 rows, 75 % zeros. A core begins one multiply-add a cycle,
and a lookup beside it on another pipe."""

ZEN_5 = replace(ZEN_4, source="shipped for Zen 5", lookup=((16, 0.8), (32, 1.7), (64, 3.6)))
"""A core begins two multiply-adds a cycle, but one lookup. The one in 32 columns is not measured:
it is Zen 4's, scaled as the one in 16."""

AVX512 = Machine(
    name="AVX-512",
    features=("avx512f",),
    register_bits=512,
    sums=16,  # 28 of 32 already spill
    widths=(256, 512),
    costs=ZEN_4,
    lookups=(
        *(("float32", 16, lookup_16), ("float32", 32, lookup_32), ("float32", 64, lookup_64)),
        ("float64", 16, doubles_lookup),
    ),
    rounds=True,
    chips=(("znver4", ZEN_4), ("znver5", ZEN_5)),
    kept=(("znver5", 48 << 10),),
)


def halves_lookup(bank: int) -> Lookup:
    """Return the lookup in ``bank`` halves by one ``vpermw``: low five bits of an index count."""

    def lookup(buffer: Any, row: tuple[Any, ...], start: Any, index: Any) -> Any:
        table = repeated(buffer, row, start, bank, 32)
        name = "llvm.x86.avx512.permvar.hi.512"
        return tirx.call_llvm_pure_intrin("uint16x32", name, table, index)

    return lookup


BFLOAT16_DOT = """
declare <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float>, <32 x bfloat>, <32 x bfloat>)
define <16 x float> @ts_dot_bfloat16(
    <16 x float> %sums, <32 x i16> %a, <32 x i16> %b) alwaysinline {
  %x = bitcast <32 x i16> %a to <32 x bfloat>
  %y = bitcast <32 x i16> %b to <32 x bfloat>
  %r = call <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(
      <16 x float> %sums, <32 x bfloat> %x, <32 x bfloat> %y)
  ret <16 x float> %r
}
"""
"""TVM turns vectors of bfloat16 into vectors of float32 before it makes code: this takes bits."""

_QUADS = shuffled_bytes("llvm.x86.avx512.pshuf.b.512", 512)

AVX512_BW = replace(
    AVX512,
    name="AVX-512 BW",
    costs=replace(ZEN_4, halves=((16, 0.6),), bytes=((16, 0.7),)),
    features=("avx512f", "avx512bw"),
    lookups=(
        *AVX512.lookups,
        *(("bfloat16", bank, halves_lookup(bank)) for bank in (16, 32)),
        ("uint8", 16, _QUADS),
    ),
    dots=(("uint8", widened_dot("llvm.x86.avx512.pmaddw.d.512", 512)),),
    pack=pack_512,
    table=table_in_banks(_QUADS, 16),
)

AVX512_VNNI = replace(
    AVX512_BW,
    name="AVX-512 VNNI",
    features=("avx512f", "avx512bw", "avx512vnni"),
    costs=replace(ZEN_4, halves=((16, 0.6),), bytes=((16, 0.8),)),
    dots=(("uint8", fused_dot("llvm.x86.avx512.vpdpbusd.512", 512)),),
    fused=("uint8",),
)

AVX512_VBMI = replace(
    AVX512_VNNI,
    name="AVX-512 VNNI VBMI",
    features=("avx512f", "avx512bw", "avx512vnni", "avx512vbmi"),
    costs=replace(ZEN_4, halves=((16, 0.6),)),
    lookups=(
        *(entry for entry in AVX512_VNNI.lookups if entry[0] != "uint8"),
        *(("uint8", bank, bytes_lookup(bank)) for bank in (16, 32, 64)),
    ),
    table=bytes_table,
)

AVX512_BF16 = replace(
    AVX512_VBMI,
    name="AVX-512 VNNI VBMI BF16",
    features=(*AVX512_VBMI.features, "avx512bf16"),
    costs=ZEN_4,
    dots=(*AVX512_VBMI.dots, ("bfloat16", imported_dot("ts_dot_bfloat16"))),
    code=(("bfloat16", BFLOAT16_DOT),),
)
"""Cooper Lake has bfloat16 without VBMI: it multiplies in float32."""
