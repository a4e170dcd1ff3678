"""Ranking of importance scores: which entries of a group are the largest, ties to the left."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tvm_sparse.errors import InputError
from tvm_sparse.patterns.base import Array, Mask


def checked_scores(scores: npt.ArrayLike, where: str) -> Array:
    """Return ``scores`` as a real matrix; refuse other ranks, negative, NaN or infinite values."""
    matrix = np.asarray(scores)
    if matrix.ndim != 2:
        raise InputError(where, f"scores of shape {matrix.shape}", "a matrix (rows, cols)")
    if matrix.dtype.kind != "f":
        # Small integers and ml_dtypes floats lack the ordering functions that ranking needs.
        matrix = matrix.astype(np.float64 if matrix.dtype.itemsize > 2 else np.float32)
    if matrix.size and not (matrix.min() >= 0 and np.isfinite(matrix.max())):
        bad = tuple(int(i) for i in np.argwhere(~(np.isfinite(matrix) & (matrix >= 0)))[0])
        raise InputError(
            where, f"score {matrix[bad]} at {bad}", "finite scores >= 0", "take magnitudes"
        )
    return matrix


def keep_largest(scores: Array, keep: int) -> Mask:
    """Return the mask of the ``keep`` largest entries along the last axis.

    Of equal scores the first is kept, so the result does not depend on the sort used.
    Entries of ``-inf`` (padding) are never kept.
    """
    length = scores.shape[-1]
    if keep <= 0:
        return np.zeros(scores.shape, bool)
    if keep >= length:
        return scores > -np.inf
    threshold = np.partition(scores, length - keep, axis=-1)[..., length - keep, None]
    mask = scores > threshold
    tied = scores == threshold
    free = keep - np.count_nonzero(mask, axis=-1, keepdims=True)
    rank = np.cumsum(tied, axis=-1, dtype=np.uint16 if length < 2**16 else np.int64)
    mask |= tied & np.less_equal(rank, free)
    return mask & (scores > -np.inf)


def kept_count(total: int, sparsity: float, where: str) -> int:
    """Return how many of ``total`` stay at ``sparsity``, rounded to nearest."""
    if not 0 <= sparsity <= 1:
        raise InputError(where, f"sparsity {sparsity}", "0 to 1 (the fraction of zeros)")
    return int(np.floor(total * (1 - sparsity) + 0.5))
