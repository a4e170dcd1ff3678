"""A contraction of the network with its weight: what candidates are chosen for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from tvm_sparse.errors import InputError
from tvm_sparse.formats.arrays import chunks
from tvm_sparse.ops.contraction import Contraction
from tvm_sparse.patterns.analysis import Analysis
from tvm_sparse.patterns.lowering import lower


@dataclass(frozen=True)
class Layer:
    """A contraction of the network with its weight.

    ``weight`` is ``(features, columns[, kh, kw])``, as in PyTorch.
    """

    name: str
    operator: str
    contraction: Contraction
    weight: np.ndarray = field(repr=False)

    @property
    def matrix(self) -> np.ndarray:
        """The weight as a matrix, columns in ``hwi`` order; of a linear layer, the weight itself.

        It is not copied if the weight is stored in that order, and need not be contiguous.
        """
        return self.weight if self.weight.ndim == 2 else lower(self.weight, "hwi")

    def analysis(self) -> Analysis:
        """Return an analysis of the weight, made anew: it holds a copy of the weight."""
        return Analysis(self.weight, depthwise=self.contraction.depthwise, name=self.name)

    @property
    def sparsity(self) -> float:
        """Fraction of zeros."""
        return zeros(self.weight)

    def static(self) -> Contraction:
        """Return the contraction with symbolic extents set to one, for measuring."""
        lead = tuple(e if isinstance(e, int) else 1 for e in self.contraction.lead)
        return replace(self.contraction, lead=lead)

    def contiguous(self) -> Layer:
        """Return the layer with its weight stored so that the matrix is contiguous."""
        linear = self.weight.ndim == 2
        return replace(self, weight=np.ascontiguousarray(self.weight)) if linear else self

    def check_finite(self) -> None:
        """Refuse NaN and infinite weights, with the position of the first."""
        for first, part in chunks(self.weight):
            finite = np.isfinite(part)
            if not finite.all():
                row, *rest = (int(i) for i in np.argwhere(~finite)[0])
                position = (first + row, *rest)
                raise InputError(
                    f"layer '{self.name}'",
                    f"weight{list(position)} is {self.weight[position]}",
                    "finite weights",
                    "repair the checkpoint",
                )


def zeros(weight: np.ndarray) -> float:
    """Return the fraction of zeros."""
    return float((weight.size - np.count_nonzero(weight)) / weight.size)
