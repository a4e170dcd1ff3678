"""Diagonal-wise refactorization (DR): a depthwise convolution as a few matrix products."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvm_sparse.errors import InputError

GROUP = 32
"""Channels in a sub-GEMM: the tile of a GPU (Park et al., Fig. 2)."""


def to_diagonal(weight: np.ndarray, group: int = GROUP) -> list[np.ndarray]:
    """Return the sub-GEMM matrices of a depthwise weight (Park et al., Fig. 2c).

    Sub-GEMM ``g`` multiplies ``(group, group * kh * kw)`` with the im2col of its channels
    ``(group * kh * kw, pixels)``. Row ``c`` holds the weights of channel ``group * g + c`` at
    columns ``c * kh * kw ...``; all else is zero. So each column holds one weight, and a pruned
    weight takes its column and one im2col row with it.

    Parameters
    ----------
    weight
        ``(channels, 1, kh, kw)`` or ``(channels, kh * kw)``.
    group
        Channels in a sub-GEMM. The last one is smaller if ``group`` does not divide ``channels``.
    """
    taps = weight.reshape(len(weight), -1)
    width = taps.shape[1]
    matrices = []
    for start in range(0, len(taps), group):
        part = taps[start : start + group]
        matrix = np.zeros((len(part), len(part) * width), dtype=weight.dtype)
        for row, values in enumerate(part):
            matrix[row, row * width : (row + 1) * width] = values
        matrices.append(matrix)
    return matrices


def from_diagonal(matrices: Sequence[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """Undo :func:`to_diagonal`: return the depthwise weight of ``shape``.

    Raises
    ------
    InputError
        If a matrix has a nonzero off the diagonal blocks: it is no depthwise convolution.
    """
    rows = []
    for number, matrix in enumerate(matrices):
        width = matrix.shape[1] // len(matrix)
        cut = matrix.reshape(len(matrix), -1, width)
        index = np.arange(len(matrix))
        if np.count_nonzero(cut) != np.count_nonzero(cut[index, index]):
            raise InputError(
                f"sub-GEMM {number}", "a nonzero off the diagonal", "one channel's taps in a row"
            )
        rows.append(cut[index, index])
    return np.concatenate(rows).reshape(shape)


def kept_vectors(mask: np.ndarray, group: int = GROUP) -> list[int]:
    """Return how many columns of each sub-GEMM stay when ``mask`` (True = kept) prunes the taps."""
    flat = mask.reshape(len(mask), -1)
    return [int(flat[i : i + group].sum()) for i in range(0, len(flat), group)]


def imbalance(mask: np.ndarray, group: int = GROUP) -> float:
    """Return the layer's sparsity minus the lowest of its sub-GEMMs (Park et al., Fig. 3c).

    The slowest sub-GEMM decides, so this part of the sparsity is without effect.
    """
    flat = mask.reshape(len(mask), -1)
    parts = [flat[i : i + group] for i in range(0, len(flat), group)]
    return float(1 - flat.mean() - min(1 - part.mean() for part in parts))
