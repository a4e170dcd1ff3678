"""The state of a recurrent layer as bytes, with the scale that it has itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from tvm_sparse.base.numerics import FLOAT_SUMS, INTEGER_SUMS, Numerics, vector_type
from tvm_sparse.ops.bytes.quantize import Scale
from tvm_sparse.ops.bytes.quantize_rows import Hold, Row
from tvm_sparse.ops.bytes.rounding import nearest
from tvm_sparse.ops.contractions.contraction import Extent
from tvm_sparse.ops.marks import int64
from tvm_sparse.ops.tensors.axis import flat_view, variable

_BYTES = Scale("uint8", 1.0)


class DynamicScale:
    """Step and zero point of ONNX's ``DynamicQuantizeLinear``: bytes reach from least to most.

    Both are numbers of :mod:`~tvm_sparse.ops.bytes.quantize_rows`, of a whole tensor.
    """

    extrema = ("min", "max")
    dtypes = (FLOAT_SUMS, INTEGER_SUMS)

    def __init__(self) -> None:
        """Nothing is known before :meth:`settle`."""
        self.known: list[Any] = []

    def settle(self, extrema: Mapping[str, Any], hold: Hold) -> list[Any]:
        """Compute step and zero point; a tensor of zeros has the step zero."""
        zero, one, most = (tirx.const(float(n), FLOAT_SUMS) for n in (0, 1, 255))
        low, high = tirx.min(extrema["min"], zero), tirx.max(extrema["max"], zero)
        size = hold((high - low) / most)
        divisor = hold(tirx.Select(size.equal(zero), one, size))
        place = hold(nearest((zero - low) / divisor))
        self.known = [divisor, place]
        return [size, tirx.Cast(INTEGER_SUMS, place)]

    def steps(self, element: Any) -> Any:
        """Return the byte of an element as a float; beyond the range it is saturated."""
        divisor, place = self.known
        return nearest(element / divisor) + place


class RoundedState:
    """A state in bytes: variables of a function under construction.

    ``values`` are what products of ``numerics`` read: the bytes, or the floats that they mean.
    """

    def __init__(self, batch: Extent, hidden: int, numerics: Numerics) -> None:
        """Declare them for a state of ``(batch, hidden)``."""
        shape = int64((batch, hidden))
        self.size = batch * hidden
        known = isinstance(batch, int)
        width, lines = (batch * hidden, 1) if known else (hidden, batch)
        self.row = Row(width, _BYTES, DynamicScale(), lines)
        self.bytes = T.sblock_alloc_buffer(shape, _BYTES.dtype)
        self.values = T.sblock_alloc_buffer(shape, FLOAT_SUMS) if numerics.floating else self.bytes
        self.step, self.zero = variable(FLOAT_SUMS), variable(INTEGER_SUMS)

    def emit(self, state: Any) -> None:
        """Round ``state``."""
        source, result = flat_view(state, self.size), flat_view(self.bytes, self.size)
        self.row.emit(source, result, [self.step, self.zero], 0)
        if self.values is not self.bytes:
            means = flat_view(self.values, self.size)
            (size,) = int64((self.size,))
            with T.serial(0, size) as i:
                means[i] = self.rescaled(tirx.Cast(INTEGER_SUMS, result[i]), 1, 1.0)

    def rescaled(self, sums: Any, totals: Any, factors: Any) -> Any:
        """Return what sums mean: ``totals`` are those of the weights, ``factors`` their steps."""
        whole = sums - self.zero[0] * totals
        lanes = int(whole.ty.dtype.lanes)
        return tirx.Cast(vector_type(FLOAT_SUMS, lanes), whole) * self.step[0] * factors
