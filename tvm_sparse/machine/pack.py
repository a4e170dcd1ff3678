"""Floats of several vectors become bytes in one vector, by instructions that saturate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import tirx

from tvm_sparse.base.numerics import WHOLE
from tvm_sparse.machine.vector import LANES, QUAD_BITS, SUM_BITS, VECTOR_BITS

PARTS = VECTOR_BITS // 8 // LANES
"""Vectors of single precision that a vector of bytes has the elements of."""

Pack = Callable[[Sequence[Any], Any, str, bool], Any]
"""``(steps, zero_point, dtype, small) -> bytes``: the integers next to :data:`PARTS` vectors of
floats, half to even, plus ``zero_point`` of 32 bits, saturated, in order. Floats are finite and
below 2^30; with a zero point, ``small`` ones have integers of 16 bits."""


def pack_512(steps: Sequence[Any], zero_point: Any, dtype: str, small: bool) -> Any:
    """Pack with AVX-512 BW: one rounding a vector, three packs and an exchange of lanes in all.

    What is small is rounded by an addition, which is one instruction with a product before it, and
    cut to words. Other floats are converted, and the first packs saturate.
    """
    words = _cut if small else _saturated
    pairs = [words(a, b, zero_point) for a, b in zip(steps[::2], steps[1::2], strict=True)]
    name = "packuswb" if dtype == "uint8" else "packsswb"
    bytes_ = f"{dtype}x{PARTS * LANES}"
    mixed = tirx.call_llvm_pure_intrin(bytes_, f"llvm.x86.avx512.{name}.512", *pairs)
    # Packs work within quads. Each has a part of either pair, or of every vector.
    parts = 2 if small else PARTS
    quads = VECTOR_BITS // QUAD_BITS
    order = [part + parts * quad for part in range(parts) for quad in range(quads)]
    unit = QUAD_BITS // parts
    whole = tirx.reinterpret(f"int{unit}x{VECTOR_BITS // unit}", mixed)
    moved = tirx.Shuffle([whole], [tirx.const(i, "int32") for i in order])
    return tirx.reinterpret(bytes_, moved)


def _cut(first: Any, second: Any, zero_point: Any) -> Any:
    """Return the low words of the integers next to two vectors of floats, plus ``zero_point``."""
    words = f"int16x{2 * LANES}"
    whole = tirx.const(WHOLE, str(first.ty.dtype))
    parts = [tirx.reinterpret(words, part + whole) for part in (first, second)]
    low = [tirx.const(i, "int32") for i in range(0, 4 * LANES, 2)]
    found = tirx.Shuffle(parts, low)
    if _is_zero(zero_point):
        return found
    return found + tirx.Broadcast(tirx.Cast("int16", zero_point), 2 * LANES)


def _saturated(first: Any, second: Any, zero_point: Any) -> Any:
    """Return the integers next to two vectors of floats, plus ``zero_point``, saturated."""
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
    return whole if _is_zero(zero_point) else whole + tirx.Broadcast(zero_point, LANES)


def _is_zero(number: Any) -> bool:
    return isinstance(number, tirx.IntImm) and int(number) == 0
