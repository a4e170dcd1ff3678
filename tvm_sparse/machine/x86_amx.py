"""x86 with AMX, which multiplies tiles of bytes and of bfloat16."""

from __future__ import annotations

import functools
from dataclasses import replace

from tvm_sparse.machine.tiles import TileUnit
from tvm_sparse.machine.x86_amx_code import dense_code, kept_code
from tvm_sparse.machine.x86_avx512 import AVX512_BF16


def _unit(instruction: str) -> TileUnit:
    dense = functools.partial(dense_code, instruction)
    return TileUnit(dense, functools.partial(kept_code, instruction))


AVX512_AMX = replace(
    AVX512_BF16,
    name="AVX-512 VNNI VBMI BF16, AMX",
    features=(*AVX512_BF16.features, "amx-tile", "amx-int8", "amx-bf16"),
    tiles=(
        ("uint8", _unit("tdpbusd")),
        ("int8", _unit("tdpbssd")),
        ("bfloat16", _unit("tdpbf16ps")),
    ),
)
