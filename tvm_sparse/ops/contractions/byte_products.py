"""Matrix products of two activations in bytes: what is computed, and what its sums mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import te, tirx
from tvm.target import Target

from tvm_sparse.base.numerics import FLOAT_SUMS, INTEGER_SUMS, INTEGERS, is_signed
from tvm_sparse.formats.dense import DenseFormat
from tvm_sparse.ops.bytes.quantize import Scale
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.dense import DenseWeights, dense_format
from tvm_sparse.ops.contractions.loop_nest import loop_nest

HALF_RANGE = 128


@dataclass(frozen=True)
class ByteProduct:
    """``sum_k A[*batch, m, k] * B[*batch, k, n]`` of bytes ``A`` and ``B``.

    ``dtype`` is the left operand's type. The right one is multiplied as signed bytes: an unsigned
    one less 128.
    """

    batch: tuple[int, ...]
    rows: int
    columns: int
    features: int
    dtype: str

    @property
    def contraction(self) -> Contraction:
        """The same as a linear layer whose weights differ between the items of the batch."""
        numerics = next(n for n in INTEGERS if n.activation == self.dtype)
        lead = (*self.batch, self.rows)
        return Contraction(lead, self.columns, self.features, numerics=numerics)

    def format(self, target: Target) -> DenseFormat:
        """Return how the right operand is packed for an item of the batch."""
        return dense_format(self.contraction, target)

    def packed_shape(self, target: Target) -> tuple[int, ...]:
        """Return the shape of the packed right operand."""
        s = self.format(target)
        return (*self.batch, s.row_blocks, s.groups, s.lanes * s.depth)

    def function(self, target: Target) -> tirx.PrimFunc:
        """Return ``f(A, packed, Y)``; ``A`` is contiguous, ``Y`` has the sums."""
        weights = DenseWeights(self.contraction, self.format(target), batch=self.batch)
        return loop_nest(self.contraction, weights, target, centred=False)


def shifts(left: Scale, right: Scale) -> dict[str, int]:
    """Return what the operands of a :class:`ByteProduct` are shifted by, for :class:`Centre`."""
    return {
        "up": HALF_RANGE if is_signed(left.dtype) else 0,
        "down": 0 if is_signed(right.dtype) else HALF_RANGE,
    }


@dataclass(frozen=True)
class Centre:
    """What turns sums of a :class:`ByteProduct` into those of bytes less what means zero.

    Parameters
    ----------
    of_rows, of_columns
        What the sum of a row of ``A`` and that of a column of ``B`` are multiplied with.
    constant
        What is added to each sum besides.
    """

    of_rows: int
    of_columns: int
    constant: int

    @classmethod
    def of(cls, left: Scale, right: Scale, columns: int, *, up: int = 0, down: int = 0) -> Centre:
        """Return it for what the operands' bytes mean.

        What is multiplied are bytes of the left one and ``up``, and of the right one less ``down``.
        """
        zeros = left.zero_point + up, right.zero_point - down
        constant = columns * (zeros[0] * down - zeros[1] * up + zeros[0] * zeros[1])
        return cls(-zeros[1], -zeros[0], constant)

    def meant(self, sums: te.Tensor, factor: float | None, *totals: te.Tensor) -> te.Tensor:
        """Return what ``sums`` mean, a step of which means ``factor``; without it, steps.

        ``totals`` are the sums of rows if they count, then those of columns if they do.
        """

        def value(*index: Any) -> Any:
            *lead, row, column = index
            places = [(self.of_rows, row), (self.of_columns, column)]
            pairs = zip(totals, (p for p in places if p[0]), strict=True)
            parts = [t(*lead, at) * tirx.const(by, INTEGER_SUMS) for t, (by, at) in pairs]
            total = sum(parts, sums(*index) + tirx.const(self.constant, INTEGER_SUMS))
            if factor is None:
                return total
            return tirx.Cast(FLOAT_SUMS, total) * tirx.const(factor, FLOAT_SUMS)

        return te.compute(sums.shape, value, "meant")
