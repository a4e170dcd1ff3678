"""Floats of several vectors become bytes in one vector, by instructions that saturate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import tirx

from tvm_sparse.machine.vector import LANES, QUAD_BITS, SUM_BITS, VECTOR_BITS

PARTS = VECTOR_BITS // 8 // LANES
"""Vectors of single precision that a vector of bytes has the elements of."""

Pack = Callable[[Sequence[Any], Any, str], Any]
"""``(steps, zero_point, dtype) -> bytes``: the integers next to :data:`PARTS` vectors of floats,
half to even, plus ``zero_point`` of 32 bits, saturated, in order. Floats are finite and below
2^30."""


def pack_512(steps: Sequence[Any], zero_point: Any, dtype: str) -> Any:
    """Pack with AVX-512 BW: a conversion a vector, three packs and an exchange of lanes in all."""
    words = [_words(a, b, zero_point) for a, b in zip(steps[::2], steps[1::2], strict=True)]
    name = "packuswb" if dtype == "uint8" else "packsswb"
    bytes_ = f"{dtype}x{PARTS * LANES}"
    mixed = tirx.call_llvm_pure_intrin(bytes_, f"llvm.x86.avx512.{name}.512", *words)
    # Packs work within quads: each has a part of every vector.
    quads = VECTOR_BITS // QUAD_BITS
    order = [part + PARTS * quad for part in range(PARTS) for quad in range(quads)]
    whole = tirx.reinterpret(f"int{SUM_BITS}x{LANES}", mixed)
    moved = tirx.Shuffle([whole], [tirx.const(i, "int32") for i in order])
    return tirx.reinterpret(bytes_, moved)


def _words(first: Any, second: Any, zero_point: Any) -> Any:
    """Return two vectors of floats as one of words."""
    name = "llvm.x86.avx512.packssdw.512"
    parts = (_rounded(first, zero_point), _rounded(second, zero_point))
    return tirx.call_llvm_pure_intrin(f"int16x{2 * LANES}", name, *parts)


def _rounded(steps: Any, zero_point: Any) -> Any:
    """Return the integers next to ``steps``, plus ``zero_point``."""
    dtype = f"int{SUM_BITS}x{LANES}"
    none, every = tirx.const(0, dtype), tirx.const(-1, f"int{LANES}")
    current = tirx.const(4, "int32")  # the rounding that is set: half to even
    name = "llvm.x86.avx512.mask.cvtps2dq.512"
    whole = tirx.call_llvm_pure_intrin(dtype, name, steps, none, every, current)
    plain = isinstance(zero_point, tirx.IntImm) and int(zero_point) == 0
    return whole if plain else whole + tirx.Broadcast(zero_point, LANES)
