"""Weights of a quantised layer as integers: their values say so, like zeros say what is pruned."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tvm_sparse.numerics import FLOAT_SUMS

LARGEST = 128
"""Magnitude of the largest integer that a signed byte holds."""

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
        int8, of the weight's shape.
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
        Features first. Each has a step of its own, such that all multiples are signed bytes. A
        feature of zeros has the step one.

    Front ends hand on what quantised weights mean. Batch norm, removed channels and layouts change
    it like any weight, and the integers are found again behind all that: exactly, whatever scale
    they had, by tensor or by feature.
    """
    rows = weight.reshape(len(weight), -1)
    if not np.isfinite(rows).all():
        return None
    sample = _largest(rows)
    peaks = np.abs(sample).max(1, initial=0)
    sizes = np.where(peaks > 0, 0, 1).astype(FLOAT_SUMS)
    for count in (127, LARGEST, *range(126, 0, -1)):
        open_ = np.flatnonzero(sizes == 0)
        if not len(open_):
            break
        guess = (peaks[open_] / count).astype(FLOAT_SUMS)
        fits = _multiples(sample[open_], guess)
        fits[fits] = _multiples(rows[open_[fits]], guess[fits])
        sizes[open_[fits]] = guess[fits]
    if not sizes.all():
        return None
    integers = np.rint(rows / sizes[:, None]).astype(np.int8)
    return Steps(integers.reshape(weight.shape), sizes)


def _largest(rows: np.ndarray) -> np.ndarray:
    """Return some weights of each row, with the largest magnitude among them."""
    if rows.shape[1] <= _SAMPLE:
        return rows
    order = np.argpartition(-np.abs(rows), _SAMPLE, axis=1)[:, :_SAMPLE]
    return np.take_along_axis(rows, order, axis=1)


def _multiples(rows: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return of which rows all values are multiples of the row's size that a byte holds."""
    if not len(rows):
        return np.zeros(0, bool)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        counts = np.rint(rows / sizes[:, None])
        near = np.abs(counts * sizes[:, None] - rows) <= _ROUNDING * np.abs(rows)
    return (near & (counts >= -LARGEST) & (counts < LARGEST)).all(1) & (sizes > 0)
