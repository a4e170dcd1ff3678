"""Weights of a quantized layer as integers: their values say so, like zeros say what is pruned."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tvm_sparse.base.numerics import FLOAT_SUMS

LARGEST = 255
"""Magnitude of the largest byte less a zero point."""

_SIGNED = (-128, 127), (127, 128, *range(126, 0, -1))
_ANY = (-LARGEST, LARGEST), tuple(range(128, LARGEST + 1))

_SAMPLE = 32
"""Weights of a feature that are looked at before all of them."""

_ROUNDING = 8 * float(np.finfo(FLOAT_SUMS).eps)
"""Relative error of a weight: products with the scale, and of folding, are rounded."""


@dataclass(frozen=True)
class Steps:
    """A weight as ``integers`` times the step of each feature.

    Parameters
    ----------
    integers
        int16, of the weight's shape: signed bytes, unless a feature has none that fit.
    sizes
        What one step of each feature means, float32.
    """

    integers: np.ndarray = field(repr=False)
    sizes: np.ndarray = field(repr=False)


def find_steps(weight: np.ndarray) -> Steps | None:
    """Return the steps that every weight is a whole multiple of, ``None`` if there are none.

    Parameters
    ----------
    weight
        Features first. Each has a step of its own, such that all multiples are bytes less a zero
        point. A feature of zeros has the step one.

    Front ends hand on what quantized weights mean. Batch norm, removed channels and layouts change
    it like any weight, and the integers are found again behind all that: exactly, whatever scale
    they had, by tensor or by feature.
    """
    rows = weight.reshape(len(weight), -1)
    if not np.isfinite(rows).all():
        return None
    sample = _largest(rows)
    peaks = np.abs(sample).max(1, initial=0)
    sizes = np.where(peaks > 0, 0, 1).astype(FLOAT_SUMS)
    for limits, count in (
        (limits, count) for limits, counts in (_SIGNED, _ANY) for count in counts
    ):
        open_ = np.flatnonzero(sizes == 0)
        if not len(open_):
            break
        guess = (peaks[open_] / count).astype(FLOAT_SUMS)
        fits = _multiples(sample[open_], guess, limits)
        fits[fits] = _multiples(rows[open_[fits]], guess[fits], limits)
        sizes[open_[fits]] = guess[fits]
    if not sizes.all():
        return None
    integers = np.rint(rows / sizes[:, None]).astype(np.int16)
    return Steps(integers.reshape(weight.shape), sizes)


def _largest(rows: np.ndarray) -> np.ndarray:
    """Return some weights of each row, with the largest magnitude among them."""
    if rows.shape[1] <= _SAMPLE:
        return rows
    order = np.argpartition(-np.abs(rows), _SAMPLE, axis=1)[:, :_SAMPLE]
    return np.take_along_axis(rows, order, axis=1)


def _multiples(rows: np.ndarray, sizes: np.ndarray, limits: tuple[int, int]) -> np.ndarray:
    """Return of which rows all values are multiples, within ``limits``, of the row's size."""
    if not len(rows):
        return np.zeros(0, bool)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        counts = np.rint(rows / sizes[:, None])
        near = np.abs(counts * sizes[:, None] - rows) <= _ROUNDING * np.abs(rows)
    low, high = limits
    return (near & (counts >= low) & (counts <= high)).all(1) & (sizes > 0)
