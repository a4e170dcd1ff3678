"""Numbers too small for a processor's fast multiplier.

A multiplication with a denormal number (below 1.2e-38 in float32) takes 100 to 200 cycles on many
processors instead of one. Training with weight decay leaves thousands of them in dead channels,
and fitting pruned weights makes more.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np


def flushed(weight: np.ndarray) -> np.ndarray:
    """Return ``weight`` with zeros for its denormal numbers, or ``weight`` itself.

    They stay if the largest weight is small, too: a zero must be below all rounding of the layer,
    ``epsilon ** 3`` of its largest weight.
    """
    limits = ml_dtypes.finfo(weight.dtype)
    normal = float(limits.smallest_normal)
    sizes = np.abs(weight)
    small = (sizes < normal) & (sizes > 0)
    if not small.any() or normal > float(sizes.max()) * float(limits.eps) ** 3:
        return weight
    return np.where(small, np.zeros_like(weight), weight)
