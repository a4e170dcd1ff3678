"""Costs of a chip that come closest to measured times."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from scipy.optimize import least_squares

from tvm_sparse.selection.cuda.chip import Chip, Costs

SOFT = 0.1
"""Errors (logarithms) beyond this count less than their square."""


def closest(
    on: Chip,
    bounds: Mapping[str, tuple[float, float]],
    start: Mapping[str, float],
    errors: Callable[[Chip], list[float]],
) -> Costs:
    """Return the costs of ``on`` with those in ``bounds`` fitted, from ``start`` on.

    ``errors`` are the logarithms of modelled over measured times on a chip.
    """
    low, high = (np.array(one) for one in zip(*bounds.values(), strict=True))
    begin = np.array([start[name] for name in bounds])

    def costs(scaled: np.ndarray) -> Costs:
        values = (float(value) for value in low + scaled * (high - low))
        return replace(on.costs, **dict(zip(bounds, values, strict=True)))

    result = least_squares(
        lambda scaled: errors(replace(on, costs=costs(scaled))),
        (begin - low) / (high - low),
        bounds=(0, 1),
        loss="soft_l1",
        f_scale=SOFT,
    )
    return costs(result.x)
