"""Diagonal-wise refactorization (DR) as a program: im2col and one batched matrix product."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from benchmarks.cases.kernel_cases import Case
from tvm_sparse.pruning.deprune.diagonal import GROUP, to_diagonal


class Refactored:
    """A depthwise layer as DEPrune's sub-GEMMs, after Park et al., Fig. 2c and 4.

    The kept columns of each sub-GEMM are packed, so a pruned weight takes one column and one row
    of the im2col with it. All sub-GEMMs are as wide as the widest: on parallel hardware the
    slowest decides, and a batched product does the same.

    Parameters
    ----------
    case
        The layer (one image).
    x
        Its padded input, ``(1, height, width, channels)``.
    matrix
        The weight ``(channels, taps)`` with zeros where it is pruned.
    dense
        Keep all columns whatever is zero: the unpruned baseline.
    """

    def __init__(self, case: Case, x: np.ndarray, matrix: np.ndarray, dense: bool = False) -> None:
        c = case.contraction
        taps = matrix.shape[1]
        weights, places = [], []
        for number, part in enumerate(to_diagonal(matrix)):
            kept = np.arange(part.shape[1]) if dense else np.flatnonzero(part.any(axis=0))
            padded = np.zeros((GROUP, len(kept)), np.float32)
            padded[: len(part)] = part[:, kept]
            weights.append(padded)
            places.append(kept + number * GROUP * taps)
        self.width = max(len(kept) for kept in places)
        """Columns of a sub-GEMM, zeros that fill up the narrower ones included."""
        self._weights = torch.from_numpy(
            np.stack([np.pad(w, ((0, 0), (0, self.width - w.shape[1]))) for w in weights])
        )
        rows = np.stack([np.pad(kept, (0, self.width - len(kept))) for kept in places])
        self._rows = torch.from_numpy(rows.reshape(-1))
        self._windows = _windows(case, x)
        self._shape = (*c.lead[1:], c.features)
        self._columns = self.columns()

    def columns(self) -> torch.Tensor:
        """Return the kept rows of the im2col, ``(groups, width, pixels)``."""
        kernel = self._windows.shape[1:3]
        channel, tap = self._rows // kernel.numel(), self._rows % kernel.numel()
        gathered = self._windows[channel, tap // kernel[1], tap % kernel[1]]
        return gathered.reshape(len(self._weights), self.width, -1)

    def product(self) -> torch.Tensor:
        """Run the products alone, on an im2col that was made before."""
        return torch.bmm(self._weights, self._columns)

    def whole(self) -> torch.Tensor:
        """Run im2col and products."""
        return torch.bmm(self._weights, self.columns())

    def output(self, run: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
        """Return ``run`` with its output as ``(1, height, width, channels)``; a view only."""
        height, width, channels = self._shape
        return lambda: run().reshape(-1, height, width)[:channels].permute(1, 2, 0)[None]


def _windows(case: Case, x: np.ndarray) -> torch.Tensor:
    """Return all windows of the input, ``(channels, kh, kw, height, width)``, as a view."""
    c = case.contraction
    planes = torch.from_numpy(np.ascontiguousarray(x[0].transpose(2, 0, 1)))
    plane, row, pixel = planes.stride()
    return planes.as_strided(
        (len(planes), *c.taps, *c.lead[1:]),
        (plane, row, pixel, row * c.strides[0], pixel * c.strides[1]),
    )
