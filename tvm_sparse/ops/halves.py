"""Floats rounded to bfloat16, half to even: the upper half of their bits, with a carry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import te, tirx

from tvm_sparse.numerics import FLOAT_SUMS, bits_of
from tvm_sparse.ops.ieee import is_number, let

HALF = "bfloat16"
_WORD = f"uint{bits_of(FLOAT_SUMS)}"
_HALF_WORD = f"uint{bits_of(HALF)}"
_DROPPED = bits_of(FLOAT_SUMS) - bits_of(HALF)
_QUIET = 1 << (_DROPPED + 6)
"""The bit of a NaN's fraction that stays one in the upper half."""


def rounded(x: te.Tensor) -> te.Tensor:
    """Return ``x``, of single precision, in bfloat16."""
    return te.compute(x.shape, lambda *i: half_of(x(*i)), "round_half")


def half_of(x: Any) -> Any:
    """Return a float of single precision as bfloat16; NaN stays NaN.

    TVM's own cast writes its operand three times, which doubles an epilogue of any length and
    fails where a variable is bound in it.
    """

    def half(value: Any) -> Any:
        def upper(bits: Any) -> Any:
            odd = tirx.bitwise_and(_shifted(bits), tirx.const(1, _WORD))
            up = bits + (odd + tirx.const((1 << (_DROPPED - 1)) - 1, _WORD))
            quiet = tirx.bitwise_or(bits, tirx.const(_QUIET, _WORD))
            chosen = tirx.Select(is_number(value), up, quiet)
            return tirx.Cast(_HALF_WORD, _shifted(chosen))

        return tirx.reinterpret(HALF, let(tirx.reinterpret(_WORD, value), upper))

    return let(x, half)


def by_bits(x: te.Tensor, move: Callable[[te.Tensor], te.Tensor]) -> te.Tensor:
    """Return ``move(x)``, on bits if ``x`` is bfloat16: zeros stay zeros.

    TVM would widen, choose and round where it chooses between two numbers of this type.
    """
    if str(x.dtype) != HALF:
        return move(x)
    bits = te.compute(x.shape, lambda *i: tirx.reinterpret(_HALF_WORD, x(*i)), "bits")
    moved = move(bits)
    return te.compute(moved.shape, lambda *i: tirx.reinterpret(HALF, moved(*i)), "of_bits")


def _shifted(bits: Any) -> Any:
    return tirx.shift_right(bits, tirx.const(_DROPPED, _WORD))
