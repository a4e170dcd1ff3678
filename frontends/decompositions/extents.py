"""What rules may ask of an extent that is open: a question with one answer decides it."""

from __future__ import annotations

from typing import Any

LARGEST = 1 << 31
"""A size that no open extent without a bound reaches."""


def largest_size(extent: Any) -> int:
    """Return the largest size of an extent: of an open one what its range says."""
    if isinstance(extent, int):
        return extent
    upper = extent.node.shape_env.bound_sympy(extent.node.expr).upper
    return int(upper) if upper.is_Integer else LARGEST
