"""What linear layers and convolutions have in common: a sum over taps and columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_sparse.base.numerics import FLOAT32, Numerics

Extent = Any
"""A static extent (int) or a symbolic one (``tirx.Var``)."""

OPEN_ROWS = 64
"""Rows that an open extent behind the batch (a length, a width) stands for where what suits it is
chosen and measured. An open batch stands for one item."""

OPEN_HEIGHT = 8
"""What an open extent of a plane that is not its width stands for."""


@dataclass(frozen=True)
class Contraction:
    """A linear layer or a channels-last convolution, without its weight's format.

    ``lead`` are the extents of all output axes but the last: ``(..., rows)`` of a linear layer,
    ``(batch, height, width)`` of a convolution. ``columns`` are the input features or channels
    (of each group), ``features`` the outputs. ``taps``, ``strides`` and ``dilation`` have one entry
    a spatial axis and are empty for linear layers. The input of a convolution is padded already;
    its spatial extents are ``padded`` (at least what the windows touch). With ``borders`` it is
    not: the operator takes that many zeros before each spatial axis, and behind as many as it
    needs.
    ``depthwise`` convolutions read, for each output channel, the input channel of the same number
    only (``features`` equals ``columns``, and the weight matrix is ``(features, taps)``). With
    ``groups``, each group of features reads a group of channels; both hold whole lane vectors of
    features, so that a vector of features reads one group.
    ``numerics`` are the types of input, weights, sums and output; ``zero_point`` is the input, an
    integer then, that means zero. ``guarded`` floats are not multiplied where a weight is zero: the
    network has none there, only what joined layers has, and zero times infinity is NaN.
    ``examples`` are the extents of ``lead`` that the user's example has, if there is one.
    """

    lead: tuple[Extent, ...]
    columns: int
    features: int
    taps: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    dilation: tuple[int, ...] = ()
    padded: tuple[int, ...] = ()
    numerics: Numerics = FLOAT32
    borders: tuple[int, ...] = ()
    depthwise: bool = False
    zero_point: int = 0
    groups: int = 1
    guarded: bool = False
    examples: tuple[int, ...] = ()

    @property
    def dtype(self) -> str:
        """The input's dtype."""
        return self.numerics.activation

    @property
    def out_dtype(self) -> str:
        """The output's dtype."""
        return self.numerics.output

    @property
    def input_shape(self) -> tuple[Extent, ...]:
        """Shape of the (padded) input."""
        plain = len(self.lead) - len(self.taps)
        return (*self.lead[:plain], *self.padded, self.groups * self.columns)

    @property
    def output_shape(self) -> tuple[Extent, ...]:
        """Shape of the output."""
        return (*self.lead, self.features)

    @property
    def matrix_shape(self) -> tuple[int, int]:
        """Shape of the weight matrix, columns in ``hwi`` order."""
        return self.features, math.prod(self.taps) * (1 if self.depthwise else self.columns)

    def input_index(self, lead: list[Any], taps: list[Any]) -> tuple[Any, ...]:
        """Index of the input row that output row ``lead`` reads at ``taps``, without the column.

        With ``borders`` it may lie outside the input, where the input is zero.
        """
        plain = len(lead) - len(taps)
        borders = self.borders or (0,) * len(taps)
        window = zip(lead[plain:], taps, self.strides, self.dilation, borders, strict=True)
        return (*lead[:plain], *(y * s + k * d - b for y, k, s, d, b in window))

    @property
    def positions(self) -> int:
        """Positions of an output image, or zero if a spatial extent is symbolic."""
        spatial = self.lead[len(self.lead) - len(self.taps) :]
        static = all(isinstance(extent, int) for extent in spatial)
        return math.prod(spatial) if static else 0

    @property
    def is_pointwise(self) -> bool:
        """Whether it is a convolution of one tap and static extents, each position on its own."""
        same = self.padded == self.lead[len(self.lead) - len(self.taps) :]
        plain = {*self.taps, *self.strides} == {1} and not any(self.borders)
        return self.positions > 0 and same and plain

    def group_start(self, feature: Any) -> Any:
        """Return the input channel at which the group of an output feature begins."""
        return 0 if self.groups == 1 else feature // (self.features // self.groups) * self.columns

    @property
    def kind(self) -> tuple[Any, ...]:
        """What loop nests depend on but for extents: equal for contractions of a kind."""
        n = self.numerics
        own = self.depthwise, self.groups > 1, self.guarded
        return self.rows == 1, self.taps, self.strides, *own, n

    @property
    def typical_lead(self) -> tuple[int, ...]:
        """The leading extents with numbers for symbols: an example's, or what is typical."""
        if len(self.examples) == len(self.lead) and all(
            not isinstance(extent, int) or extent == example
            for extent, example in zip(self.lead, self.examples, strict=True)
        ):
            return self.examples
        spatial = len(self.lead) - len(self.taps)
        typical = [OPEN_HEIGHT if i >= max(spatial, 1) else 1 for i in range(len(self.lead))]
        lead = [e if isinstance(e, int) else n for e, n in zip(self.lead, typical, strict=True)]
        if len(lead) > 1 and not isinstance(self.lead[-1], int):
            lead[-1] = OPEN_ROWS
        return tuple(lead)

    @property
    def rows(self) -> int:
        """Output rows, of symbolic extents as many as is typical."""
        return math.prod(self.typical_lead)

    def flops(self, batch: int = 1) -> float:
        """Operations of the dense contraction; symbolic extents count as ``batch``."""
        rows = math.prod(e if isinstance(e, int) else batch for e in self.lead)
        return 2.0 * rows * math.prod(self.matrix_shape)


def reference(contraction: Contraction, x: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Compute the contraction naively in float64.

    Parameters
    ----------
    x
        Input of ``contraction.input_shape``.
    matrix
        Dense weight of ``contraction.matrix_shape``, columns in ``hwi`` order.

    Returns
    -------
    The output, of ``contraction.output_shape``, float64: exact for integers, which stay below 2^53.
    """
    c = contraction
    lead = c.lead
    weight = matrix.astype(np.float64).reshape(c.features, *c.taps, -1)
    out = np.zeros((*lead, c.features))
    plain = len(lead) - len(c.taps)
    x = _with_borders(c, x.astype(np.float64) - c.zero_point, plain)
    for tap in np.ndindex(*c.taps):
        window = tuple(
            slice(k * d, k * d + (n - 1) * s + 1, s)
            for k, d, s, n in zip(tap, c.dilation, c.strides, lead[plain:], strict=True)
        )
        patch = x[(slice(None),) * plain + window]
        factor = weight[(slice(None), *tap)]
        if c.depthwise:
            out += patch * factor[:, 0]
            continue
        parts = np.split(patch, c.groups, -1), np.split(factor, c.groups)
        out += np.concatenate([p @ f.T for p, f in zip(*parts, strict=True)], -1)
    return out


def _with_borders(c: Contraction, x: np.ndarray, plain: int) -> np.ndarray:
    """Return ``x`` with the zeros that the operator adds itself, enough for every window."""
    if not c.borders:
        return x
    axes = zip(c.borders, c.padded, c.taps, c.strides, c.dilation, c.lead[plain:], strict=True)
    widths = [
        (b, max(0, (n - 1) * s + (k - 1) * d + 1 - b - extent)) for b, extent, k, s, d, n in axes
    ]
    return np.pad(x, [*[(0, 0)] * plain, *widths, (0, 0)])
