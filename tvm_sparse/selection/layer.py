"""A contraction of the network with its weight: what candidates are chosen for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from tvm_sparse.errors import InputError
from tvm_sparse.formats.arrays import chunks
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.patterns.analysis import Analysis
from tvm_sparse.patterns.lowering import lower
from tvm_sparse.patterns.scan import Scan


@dataclass(frozen=True)
class Layer:
    """A contraction of the network with its weight.

    ``weight`` is ``(features, columns[, *taps])``, as in PyTorch. So many groups of a convolution
    as ``joined`` says are one group of ``contraction``, with zeros between them. One call of the
    network computes ``contraction`` so many ``times``: once for each step of a recurrent layer.
    ``planes`` is the contraction with its own borders, of a convolution whose neighbours want it
    channels first. Then no transposition is needed behind it (``skips_transpose``), unless these
    want yet another order.
    """

    name: str
    operator: str
    contraction: Contraction
    weight: np.ndarray = field(repr=False)
    joined: int = 1
    times: int = 1
    planes: Contraction | None = None
    skips_transpose: bool = True

    @property
    def stored(self) -> np.ndarray:
        """The weight as ``contraction`` has it: the weight itself, unless groups are joined."""
        if self.joined == 1:
            return self.weight
        features, columns, *taps = self.weight.shape
        groups = self.contraction.groups * self.joined
        parts = self.weight.reshape(-1, self.joined, features // groups, columns, *taps)
        full = np.zeros((*parts.shape[:3], self.joined, columns, *taps), self.weight.dtype)
        for i in range(self.joined):
            full[:, i, :, i] = parts[:, i]
        return full.reshape(features, self.joined * columns, *taps)

    @property
    def matrix(self) -> np.ndarray:
        """``stored`` as a matrix, columns in ``hwi`` order; of a linear layer, the weight itself.

        It is not copied if the weight is stored in that order, and need not be contiguous.
        """
        return self.weight if self.weight.ndim == 2 else lower(self.stored, "hwi")

    def analysis(self) -> Analysis:
        """Return an analysis of the weight, made anew: it holds a copy of the weight."""
        return Analysis(self.weight, depthwise=self.contraction.depthwise, name=self.name)

    def scan(self, analysis: Analysis | None = None) -> Scan:
        """Return the scan of ``matrix``; ``analysis`` is that of the weight, if it is made."""
        if self.joined > 1:
            return Analysis(self.stored, name=self.name).scan("hwi")
        return (analysis or self.analysis()).scan("hwi")

    @property
    def sparsity(self) -> float:
        """Fraction of zeros of the weight itself."""
        return zeros(self.weight)

    def static(self) -> Contraction:
        """Return the contraction with typical numbers for symbolic extents, for measuring."""
        c = self.contraction
        changed = zip(c.lead, c.typical_lead, strict=True)
        if all(isinstance(old, int) for old, _ in changed):
            return c
        old, new = (lead[len(lead) - len(c.taps) :] for lead in (c.lead, c.typical_lead))
        axes = zip(c.padded, old, new, c.taps, c.strides, c.dilation, strict=True)
        padded = tuple(
            n if isinstance(n, int) and isinstance(y, int) else (m - 1) * s + (k - 1) * d + 1
            for n, y, m, k, s, d in axes
        )
        return replace(c, lead=c.typical_lead, padded=padded)

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
