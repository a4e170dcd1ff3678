"""Between floats and bytes: element-wise definitions that fuse behind (or before) a contraction.

A byte ``q`` means ``(q - zero_point) * scale``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import te, tirx

from tvm_sparse.numerics import FLOAT_SUMS


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


def rescaled(sums: te.Tensor, factors: te.Tensor, bias: te.Tensor | None = None) -> te.Tensor:
    """Return ``float(sums) * factors + bias``; both have one number for each feature."""

    def value(*index: Any) -> Any:
        scaled = tirx.Cast(FLOAT_SUMS, sums(*index)) * factors(index[-1])
        return scaled if bias is None else scaled + bias(index[-1])

    return te.compute(sums.shape, value, "rescale")


def dequantised(x: te.Tensor, scale: Scale) -> te.Tensor:
    """Return what the bytes ``x`` mean."""
    return te.compute(x.shape, lambda *i: dequantised_at(x, scale, i), "dequantise")


def dequantised_at(x: te.Tensor, scale: Scale, index: tuple[Any, ...]) -> Any:
    """Return what the byte at ``index`` means."""
    zero, step = tirx.const(scale.zero_point, "int32"), tirx.const(scale.scale, FLOAT_SUMS)
    return tirx.Cast(FLOAT_SUMS, tirx.Cast("int32", x(*index)) - zero) * step


def quantised(x: te.Tensor, scale: Scale, *, divide: bool = False) -> te.Tensor:
    """Return the bytes next to the floats ``x``: half to even; what is out of range saturates.

    NaN becomes the smallest byte.

    Floats are multiplied by the inverse of the scale, rounded once, as PyTorch does; or divided
    by the scale, as ONNX says.
    """
    single = np.dtype(FLOAT_SUMS).type
    step = single(scale.scale)
    inverse = tirx.const(float(single(1) / step), FLOAT_SUMS)
    low, high = (float(limit - scale.zero_point) for limit in scale.limits)

    def value(*index: Any) -> Any:
        number = x(*index)
        steps = number / tirx.const(float(step), FLOAT_SUMS) if divide else number * inverse
        return _byte(steps, low, high, scale)

    return te.compute(x.shape, value, "quantise")


def _byte(steps: Any, low: float, high: float, scale: Scale) -> Any:
    """Return ``steps`` above the zero point as a byte."""
    # TVM's extrema give the second operand where a comparison with NaN fails: no integer is made
    # of what does not fit one. They name an operand once, so a chain of layers' epilogues stays
    # as long as it is.
    least, most = tirx.const(low, FLOAT_SUMS), tirx.const(high, FLOAT_SUMS)
    inside = tirx.min(tirx.max(tirx.nearbyint(steps), least), most)
    whole = tirx.Cast("int32", inside) + tirx.const(scale.zero_point, "int32")
    return tirx.Cast(scale.dtype, whole)
