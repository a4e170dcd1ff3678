"""Convolution weights as matrices, in the two column orders that matter."""

from __future__ import annotations

import numpy as np

ORDERS = ("ihw", "hwi")
"""``ihw``: column ``i*kh*kw + y*kw + x`` (the papers). ``hwi``: ``(y*kw + x)*I + i`` (the kernels:
consecutive input channels of one tap are neighbours, as in an NHWC activation)."""


def lower(weight: np.ndarray, order: str = "ihw") -> np.ndarray:
    """Return ``weight`` ``(O, I[, kh, kw])`` (also 3-D) as a matrix ``(O, I*kh*kw)``."""
    if weight.ndim > 2 and order == "hwi":
        weight = np.moveaxis(weight, 1, -1)
    return np.ascontiguousarray(weight).reshape(weight.shape[0], -1)


def raise_(matrix: np.ndarray, shape: tuple[int, ...], order: str = "ihw") -> np.ndarray:
    """Undo :func:`lower`: return ``matrix`` as a weight of ``shape`` ``(O, I[, kh, kw])``."""
    if len(shape) > 2 and order == "hwi":
        moved = (shape[0], *shape[2:], shape[1])
        return np.ascontiguousarray(np.moveaxis(matrix.reshape(moved), -1, 1))
    return matrix.reshape(shape)
