"""Floats rounded to bfloat16, half to even: the upper half of their bits, with a carry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import te, tirx

from tvm_sparse.base.numerics import FLOAT_SUMS, bits_of
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

    def bits_of_half(value: Any) -> Any:
        def upper(bits: Any) -> Any:
            odd = tirx.bitwise_and(_shifted(bits), tirx.const(1, _WORD))
            up = bits + (odd + tirx.const((1 << (_DROPPED - 1)) - 1, _WORD))
            quiet = tirx.bitwise_or(bits, tirx.const(_QUIET, _WORD))
            chosen = tirx.Select(is_number(value), up, quiet)
            return tirx.Cast(_HALF_WORD, _shifted(chosen))

        return let(tirx.reinterpret(_WORD, value), upper)

    return tirx.reinterpret(HALF, let(x, bits_of_half))


def single_of(x: Any) -> Any:
    """Return a number of bfloat16 in single precision."""
    return tirx.reinterpret(FLOAT_SUMS, tirx.Cast(_WORD, _bits(x)) << tirx.const(_DROPPED, _WORD))


def chosen_half(choose: Callable[..., Any], condition: Any, *values: Any) -> Any:
    """Return ``choose(condition, *values)`` of numbers of bfloat16, which are not rounded."""
    return tirx.reinterpret(HALF, choose(condition, *map(_bits, values)))


def _bits(x: Any) -> Any:
    """Return the bits of a number of bfloat16; TVM knows those of variables only."""
    if isinstance(x, tirx.FloatImm):
        return tirx.const(int(np.array(x.value, HALF).view(_HALF_WORD)), _HALF_WORD)
    return tirx.reinterpret(_HALF_WORD, x)


def by_bits(x: te.Tensor, move: Callable[[te.Tensor], te.Tensor]) -> te.Tensor:
    """Return ``move(x)``, on bits if ``x`` is bfloat16: zeros stay zeros.

    TVM would widen, choose and round where it chooses between two numbers of this type.
    """
    if str(x.dtype) != HALF:
        return move(x)
    bits = te.compute(x.shape, lambda *i: _bits(x(*i)), "bits")
    moved = move(bits)
    return te.compute(moved.shape, lambda *i: tirx.reinterpret(HALF, moved(*i)), "of_bits")


def _shifted(bits: Any) -> Any:
    return tirx.shift_right(bits, tirx.const(_DROPPED, _WORD))
