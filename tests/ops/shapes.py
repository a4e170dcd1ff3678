"""Shapes that every contraction operator is tested with: around tiles, primes, all attributes."""

from __future__ import annotations

from tvm_sparse.ops.contractions.contraction import Contraction

LEADS = [(1,), (7,), (15,), (16,), (17,), (67,), (1, 1, 13), (2, 3, 4)]
"""Leading axes of linear layers."""

WINDOWS = [
    ((1, 6, 7), (3, 3), (1, 1), (1, 1), (8, 9)),
    ((2, 4, 3), (3, 2), (2, 3), (2, 1), (11, 8)),
    ((1, 5, 14), (1, 1), (2, 2), (1, 1), (10, 28)),
    ((1, 3, 3), (5, 5), (1, 1), (1, 1), (7, 7)),
]
"""Convolutions: output shape, taps, strides, dilation, padded input."""


def window(extents: tuple[tuple[int, ...], ...], columns: int, features: int) -> Contraction:
    """Return the convolution of one of :data:`WINDOWS`."""
    lead, taps, strides, dilation, padded = extents
    return Contraction(lead, columns, features, taps, strides, dilation, padded)
