"""Calls and tolerances that make programs comparable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

TOLERANCE = 1e-3
"""Relative error up to which a program in float32 computes the same as another."""

LEAST = 5e-4
"""Outputs whose values are all smaller are compared as if they were that large: probabilities of a
detector that is shown noise. Sums of numbers near one are not exacter; onnxruntime's sigmoid of
-39 is 3e-8."""

NARROW = {"float16": 2e-2, "bfloat16": 1e-1}
"""The same for programs that multiply in these types."""


def tolerance(inputs: Sequence[np.ndarray]) -> float:
    """Return the relative error up to which programs with such inputs compute the same."""
    return max(NARROW.get(array.dtype.name, TOLERANCE) for array in inputs)


def call(library: Any, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Run ``library`` and return all its outputs."""
    return [np.asarray(x) for x in library.run(*inputs)]
