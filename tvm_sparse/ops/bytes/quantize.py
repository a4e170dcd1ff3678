"""Between floats and bytes: element-wise definitions that fuse behind (or before) a contraction.

A byte ``q`` means ``(q - zero_point) * scale``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm_ffi
from tvm import te, tirx

from tvm_sparse.base.numerics import FLOAT_SUMS, INTEGER_SUMS, WHOLE
from tvm_sparse.ops.bytes.rounding import clamped, is_number, less_whole, number_with_bits, whole

_SMALL_WHOLE = 1.25 * 2.0**23
"""What :data:`WHOLE` is, for :data:`SMALL` steps, so that code tells these from others."""

BOUND = 2.0**30
"""Steps below which finite floats count as bounded: their integers have 32 bits."""

SMALL = 2.0**15 - 2**8
"""Steps below which their integers have 16 bits, with a zero point."""


@dataclass(frozen=True)
class Scale:
    """What the bytes of a tensor mean.

    Parameters
    ----------
    dtype
        ``"uint8"`` or ``"int8"``.
    scale
        Difference that one step means.
    zero_point
        The byte that means zero.
    """

    dtype: str
    scale: float
    zero_point: int = 0

    @property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest byte."""
        found = np.iinfo(self.dtype)
        return int(found.min), int(found.max)

    def meaning(self, total: Any, count: int = 1) -> Any:
        """Return what the sum of ``count`` bytes means, an integer of 32 bits."""
        zero, step = tirx.const(count * self.zero_point, INTEGER_SUMS), self.scale
        return tirx.Cast(FLOAT_SUMS, total - zero) * tirx.const(step, FLOAT_SUMS)


def rescaled_rows(sums: te.Tensor, factors: te.Tensor, size: te.Tensor) -> te.Tensor:
    """Return ``float(sums) * size * factors``, of which ``size`` is one number or one a row."""

    def value(*index: Any) -> Any:
        scaled = tirx.Cast(FLOAT_SUMS, sums(*index)) * _of_row(size, index)
        return scaled * factors(index[-1])

    return te.compute(sums.shape, value, "rescale")


def less_zero(sums: te.Tensor, zero: te.Tensor, weights: te.Tensor) -> te.Tensor:
    """Return what sums are without ``zero``, one number or one for each row, in each factor.

    ``weights`` are the sums of the weights of each feature.
    """
    return te.compute(
        sums.shape, lambda *i: sums(*i) - _of_row(zero, i) * weights(i[-1]), "less_zero"
    )


def padded(x: te.Tensor, zero: te.Tensor, before: Sequence[int], after: Sequence[int]) -> te.Tensor:
    """Return the bytes ``x`` with ``zero``, a tensor of one number, before and behind each axis."""
    extents = list(zip(x.shape, before, after, strict=True))

    def value(*index: Any) -> Any:
        places = list(zip(index, extents, strict=True))
        inside = [tirx.And(i >= b, i < n + b) for i, (n, b, a) in places if b or a]
        byte = x(*(i - b for i, (_, b, _) in places))
        outside = tirx.Cast(str(x.dtype), _of_row(zero, index))
        return tirx.if_then_else(tirx.all(*inside), byte, outside)

    return te.compute([n + b + a for n, b, a in extents], value, "pad")


def _of_row(number: te.Tensor, index: tuple[Any, ...]) -> Any:
    """Return the number that counts at ``index``."""
    missing = len(index) - len(number.shape)
    places = zip(index[missing:], number.shape, strict=True)
    first = tirx.const(0, "int64")
    return number(*[first if isinstance(n, tirx.IntImm) and int(n) == 1 else i for i, n in places])


def dequantized(x: te.Tensor, scale: Scale) -> te.Tensor:
    """Return what the bytes ``x`` mean."""
    return te.compute(x.shape, lambda *i: dequantized_at(x, scale, i), "dequantize")


def dequantized_at(x: te.Tensor, scale: Scale, index: tuple[Any, ...]) -> Any:
    """Return what the byte at ``index`` means."""
    return scale.meaning(tirx.Cast(INTEGER_SUMS, x(*index)))


def quantized(
    x: te.Tensor, scale: Scale, *, divide: bool = False, bound: float = math.inf
) -> te.Tensor:
    """Return the bytes next to the floats ``x``: half to even; what is out of range saturates.

    NaN becomes the smallest byte. There is none if all floats are less than ``bound`` steps: below
    :data:`BOUND` that is faster, more so below :data:`SMALL`.

    Floats are multiplied by the inverse of the scale, rounded once, as PyTorch does; or divided
    by the scale, as ONNX says.
    """
    single = np.dtype(FLOAT_SUMS).type
    step = single(scale.scale)
    inverse = tirx.const(float(single(1) / step), FLOAT_SUMS)

    def value(*index: Any) -> Any:
        number = x(*index)
        steps = number / tirx.const(float(step), FLOAT_SUMS) if divide else number * inverse
        return byte_of(steps, scale, bound)

    return te.compute(x.shape, value, "quantize")


def whole_steps(x: te.Tensor, scale: Scale, bound: float = math.inf) -> te.Tensor:
    """Return how far from the zero point the bytes next to the steps ``x`` are, as floats.

    All are less than ``bound``.
    """

    def value(*index: Any) -> Any:
        return less_whole(_rounded(x(*index), scale, bound))

    return te.compute(x.shape, value, "whole_steps")


def byte_of(steps: Any, scale: Scale, bound: float = math.inf) -> Any:
    """Return ``steps``, less than ``bound``, above the zero point as a byte."""
    zero = scale.zero_point
    if bound < BOUND:
        # The zero point is named once, so that layers may share the rest. Nothing overflows: bits
        # of positive floats are less than those of NaN, a negative sum is no fraction.
        number = _SMALL_WHOLE if bound < SMALL else WHOLE
        bits = tirx.reinterpret("int32", steps + tirx.const(number, FLOAT_SUMS))
        return _byte_with_bits(bits + tirx.const(zero, "int32"), scale.dtype, number)
    # The last eight bits of WHOLE are zero, and bytes are added up faster than words.
    low = tirx.Cast("uint8", tirx.reinterpret("int32", _rounded(steps, scale)))
    byte = low + tirx.const(zero % 256, "uint8")
    return byte if scale.dtype == "uint8" else tirx.Cast(scale.dtype, byte)


def _byte_with_bits(bits: Any, dtype: str, number: float) -> Any:
    """Return the byte next to a whole number and ``number``, given as bits."""
    low, high = Scale(dtype, 1.0).limits
    byte = tirx.Cast("uint8", tirx.reinterpret("int32", clamped(bits, low, high, number)))
    return byte if dtype == "uint8" else tirx.Cast(dtype, byte)


@dataclass(frozen=True)
class Parts:
    """What :func:`byte_of` made a byte of: bounded steps, :data:`SMALL` ones or not.

    The zero point is a number of 32 bits, which may be read from somewhere.
    """

    steps: Any
    zero_point: Any
    dtype: str
    small: bool

    @staticmethod
    def of(byte: Any) -> Parts | None:
        """Return what ``byte`` is made of; ``None`` if it is something else."""
        dtype = str(byte.ty.dtype)
        tops: list[Any] = []
        if dtype in ("uint8", "int8"):
            tvm_ffi.structural_walk(byte, (tirx.Max, tops.append))
        # Others are of floats, or of indices: where an element is read may have extrema, too.
        tops = [top for top in tops if str(top.ty.dtype) == INTEGER_SUMS]
        for top, number in itertools.product(tops, (WHOLE, _SMALL_WHOLE)):
            if tvm_ffi.structural_equal(_byte_with_bits(top.a, dtype, number), byte):
                bits, zero = top.a, tirx.const(0, "int32")
                if isinstance(bits, tirx.Add):
                    bits, zero = bits.a, bits.b
                elif isinstance(bits, tirx.Sub):  # TVM's way to add what is less than zero
                    bits, zero = bits.a, zero - bits.b
                sums = number_with_bits(bits)
                if not isinstance(sums, tirx.Add) or not is_number(sums.b, number):
                    return None
                return Parts(sums.a, zero, dtype, number == _SMALL_WHOLE)
        return None


def _rounded(steps: Any, scale: Scale, bound: float = math.inf) -> Any:
    """Return the integer next to ``steps`` that a byte holds above the zero point, and WHOLE."""
    # TVM's extrema give the second operand where a comparison with NaN fails: no integer is made
    # of what does not fit one. They name an operand once, so a chain of layers' epilogues stays
    # as long as it is. Positive floats are in the order of their bits; Zen compares these in four
    # pipes, floats in the two that add and convert them.
    low, high = (limit - scale.zero_point for limit in scale.limits)
    if bound < BOUND:
        return clamped(tirx.reinterpret("int32", steps + whole()), low, high)
    sums = tirx.max(steps, tirx.const(float(low), FLOAT_SUMS)) + whole()
    return clamped(tirx.reinterpret("int32", sums), None, high)
