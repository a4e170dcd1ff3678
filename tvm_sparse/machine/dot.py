"""Dot products in lanes: several neighbouring columns of each lane are multiplied and added up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tirx

from tvm_sparse.machine.vector import SUM_BITS

Dot = Callable[[Any, Any, Any], Any]
"""``(sums, activations, weights) -> sums``: lane ``i`` has the products of columns ``d * i`` to
``d * i + d - 1`` added, ``d`` being how many of a lane's columns fill the bits of its sum."""


def plain_dot(sums: Any, activations: Any, weights: Any) -> Any:
    """Multiply bytes in the type of the sums, column after column: correct on every target."""
    lanes = int(sums.ty.dtype.lanes)
    depth = int(activations.ty.dtype.lanes) // lanes
    wide = str(sums.ty.dtype)
    for column in range(depth):
        at = [tirx.const(lane * depth + column, "int32") for lane in range(lanes)]
        left, right = (
            tirx.Cast(wide, v if depth == 1 else tirx.Shuffle([v], at))
            for v in (activations, weights)
        )
        sums = sums + left * right
    return sums


def plain_half_dot(sums: Any, activations: Any, weights: Any) -> Any:
    """Multiply pairs of bfloat16, given by their bits, in the type of the sums, which is wider."""
    lanes = int(sums.ty.dtype.lanes)
    bits = SUM_BITS // 2
    parts = [tirx.reinterpret(f"uint{SUM_BITS}x{lanes}", v) for v in (activations, weights)]
    low = [tirx.shift_left(v, _words(bits, v)) for v in parts]
    high = [tirx.bitwise_and(v, _words((1 << SUM_BITS) - (1 << bits), v)) for v in parts]
    for left, right in (low, high):
        dtype = str(sums.ty.dtype)
        sums = sums + tirx.reinterpret(dtype, left) * tirx.reinterpret(dtype, right)
    return sums


def _words(value: int, like: Any) -> Any:
    return tirx.Broadcast(tirx.const(value, f"uint{SUM_BITS}"), int(like.ty.dtype.lanes))


def imported_dot(name: str) -> Dot:
    """Return the dot product by ``name``, a function that :attr:`Machine.code` defines."""
    return lambda sums, activations, weights: tirx.call_extern(
        sums.ty.dtype, name, sums, activations, weights
    )


def widened_dot(name: str, bits: int) -> Dot:
    """Return the dot product of unsigned and signed bytes by products of 16 bits, which are exact.

    ``name`` is an instruction that adds up pairs of such products in vectors of ``bits``. The one
    that multiplies bytes themselves saturates its sums of pairs.
    """

    def dot(sums: Any, activations: Any, weights: Any) -> Any:
        even, odd = _unsigned_halves(activations), _signed_halves(weights)
        products = zip(even, odd, strict=True)
        for left, right in products:
            sums = sums + in_parts(name, bits, left, right)
        return sums

    return dot


def fused_dot(name: str, bits: int) -> Dot:
    """Return the dot product of unsigned and signed bytes by an instruction that adds to sums."""
    return lambda sums, activations, weights: in_parts(name, bits, sums, activations, weights)


def in_parts(name: str, bits: int, *operands: Any) -> Any:
    """Return LLVM's ``name``, an operation on vectors of ``bits``, of longer vectors.

    The result has lanes of 32 bits.
    """
    size = sum_lanes(operands[0])
    whole = size * SUM_BITS
    if whole == bits:
        return tirx.call_llvm_pure_intrin(f"int32x{size}", name, *operands)
    lanes = bits // SUM_BITS
    parts = [
        tirx.call_llvm_pure_intrin(
            f"int32x{lanes}", name, *(part(operand, first, lanes) for operand in operands)
        )
        for first in range(0, size, lanes)
    ]
    return tirx.Shuffle(parts, [tirx.const(lane, "int32") for lane in range(size)])


def part(vector: Any, first: int, lanes: int) -> Any:
    """Return ``lanes`` lanes of 32 bits of ``vector``, with elements of its own type."""
    size = sum_lanes(vector)
    count = int(vector.ty.dtype.lanes) // size
    at = [tirx.const(i, "int32") for i in range(first * count, (first + lanes) * count)]
    return tirx.Shuffle([vector], at)


def sum_lanes(vector: Any) -> int:
    """Return the lanes of 32 bits of ``vector``."""
    dtype = vector.ty.dtype
    return int(dtype.lanes) * int(dtype.bits) // SUM_BITS


def _unsigned_halves(bytes_: Any) -> tuple[Any, Any]:
    """Return the even and the odd bytes, as numbers of 16 bits."""
    wide = _pairs(bytes_)
    return (
        tirx.bitwise_and(wide, _all(0xFF, wide)),
        tirx.bitwise_and(tirx.shift_right(wide, _all(8, wide)), _all(0xFF, wide)),
    )


def _signed_halves(bytes_: Any) -> tuple[Any, Any]:
    wide = _pairs(bytes_)
    high = tirx.shift_left(wide, _all(8, wide))
    return tirx.shift_right(high, _all(8, wide)), tirx.shift_right(wide, _all(8, wide))


def _pairs(bytes_: Any) -> Any:
    return tirx.reinterpret(f"int16x{int(bytes_.ty.dtype.lanes) // 2}", bytes_)


def _all(value: int, like: Any) -> Any:
    return tirx.Broadcast(tirx.const(value, "int16"), int(like.ty.dtype.lanes))
