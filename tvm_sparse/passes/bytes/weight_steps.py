"""Weights of a quantized layer as integers: their values say so, like zeros say what is pruned."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from tvm_sparse.base.numerics import DOUBLE, FLOAT_SUMS, HALVES

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


def find_steps(weight: np.ndarray, dtype: str = FLOAT_SUMS) -> Steps | None:
    """Return the steps that every weight is a whole multiple of, ``None`` if there are none.

    Parameters
    ----------
    weight
        Features first. Each has a step of its own, such that all multiples are bytes less a zero
        point. A feature of zeros has the step one.
    dtype
        What multiples were rounded to: each weight is the number of this type next to its own.

    Front ends hand on what quantized weights mean. Batch norm, removed channels and layouts change
    it like any weight, and the integers are found again behind all that: exactly, whatever scale
    they had, by tensor or by feature.
    """
    rows = weight.reshape(len(weight), -1)
    rows = rows.astype(FLOAT_SUMS) if str(rows.dtype) in HALVES else rows
    sizes_of = partial(_rounded_sizes, dtype) if dtype in HALVES else _exact_sizes
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
        fits = sizes_of(sample[open_], guess, limits) > 0
        sizes[open_[fits]] = sizes_of(rows[open_[fits]], guess[fits], limits)
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


def _exact_sizes(rows: np.ndarray, sizes: np.ndarray, limits: tuple[int, int]) -> np.ndarray:
    """Return ``sizes``, zero for rows whose values are no multiples of it within ``limits``."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        counts = np.rint(rows / sizes[:, None])
        near = np.abs(counts * sizes[:, None] - rows) <= _ROUNDING * np.abs(rows)
    return _where(near, counts, sizes, limits)


def _rounded_sizes(
    dtype: str, rows: np.ndarray, sizes: np.ndarray, limits: tuple[int, int]
) -> np.ndarray:
    """Return sizes next to ``sizes`` whose multiples, rounded to ``dtype``, are the rows' values.

    Each value is what an interval is rounded to, which bounds the size: the middle of all bounds
    is taken. A size is zero where there is none.
    """
    halves = np.abs(rows).astype(dtype)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        counts = np.rint(rows / sizes[:, None])
        low, high = (
            (halves.astype(DOUBLE) + np.nextafter(halves, halves.dtype.type(end)).astype(DOUBLE))
            / (2 * np.abs(counts))
            for end in (0, np.inf)
        )
        held = counts != 0
        least = low.max(1, where=held, initial=0)
        most = high.min(1, where=held, initial=np.inf)
        sizes = ((least + most) / 2).astype(FLOAT_SUMS)
        counts = np.rint(rows / sizes[:, None])
        means = (counts * sizes[:, None]).astype(dtype).astype(FLOAT_SUMS)
    return _where(means == rows, counts, sizes, limits)


def _where(
    fits: np.ndarray, counts: np.ndarray, sizes: np.ndarray, limits: tuple[int, int]
) -> np.ndarray:
    """Return ``sizes``, zero unless all values of a row fit and have a count within ``limits``."""
    low, high = limits
    whole = (fits & (counts >= low) & (counts <= high)).all(1) & (sizes > 0)
    return np.where(whole, sizes, 0)
