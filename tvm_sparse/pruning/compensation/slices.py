"""Layers with very many columns: groups of input channels, each fitted by itself.

The normal equations of ``n`` columns are matrices of ``n x n``, in float64. Those of a convolution
of 1024 channels and 64 taps would take 34 GB each. Beyond :data:`ELEMENTS`, only the products of
columns in the same group of channels are kept: each group keeps its own share of the outputs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from tvm_sparse.patterns.exchange import Exchange
from tvm_sparse.patterns.lowering import lower, raise_
from tvm_sparse.pruning.layers import CONV, LINEAR, PrunableLayer

ELEMENTS = 1 << 25
"""Elements of the largest matrix of a layer's normal equations (0.25 GB; some eight are held)."""

ALIGNED = 64
"""Channels of a group are a multiple of this (of a smaller power of 2, where fewer fit), so that
banks and blocks lie in one group each."""


@dataclass(frozen=True)
class Slices:
    """The columns ``(channels, taps)`` of a weight in ``count`` groups of ``width`` channels.

    Channels that are missing in the last group are zeros.
    """

    channels: int
    width: int

    @property
    def count(self) -> int:
        """Number of groups."""
        return -(-self.channels // self.width)

    @property
    def missing(self) -> int:
        """Channels that fill up the last group."""
        return self.count * self.width - self.channels

    def inputs(self, rows: Tensor) -> Tensor:
        """Return inputs (1, rows, channels * taps), in ihw order, as (groups, rows, columns)."""
        parted = rows[0].unflatten(1, (self.channels, -1))
        padded = F.pad(parted, (0, 0, 0, self.missing))
        return padded.unflatten(1, (self.count, self.width)).flatten(2).transpose(0, 1)

    def parts(self, weight: np.ndarray, order: str) -> np.ndarray:
        """Return ``weight`` (O, I, ...) as matrices (groups * O, columns of a group)."""
        rows, _, *taps = weight.shape
        fill = [(0, 0), (0, self.missing), *[(0, 0)] * len(taps)]
        parted = np.pad(weight, fill).reshape(rows, self.count, self.width, *taps)
        return lower(np.moveaxis(parted, 1, 0).reshape(-1, self.width, *taps), order)

    def whole(self, matrices: np.ndarray, shape: tuple[int, ...], order: str) -> np.ndarray:
        """Undo :meth:`parts`: return the weight of ``shape``."""
        rows, _, *taps = shape
        parted = raise_(matrices, (self.count * rows, self.width, *taps), order)
        parted = np.moveaxis(parted.reshape(self.count, rows, self.width, *taps), 0, 1)
        return np.ascontiguousarray(parted.reshape(rows, -1, *taps)[:, : self.channels])

    def keeps(self, exchange: Exchange, shape: tuple[int, ...], order: str) -> bool:
        """Whether the pools of ``exchange`` in a group are pools of the whole matrix, too."""
        width = exchange.blocks[1] if exchange.blocks is not None else 1
        unit = math.lcm(exchange.width, exchange.pool or 1, width)
        places = np.arange(math.prod(shape[1:]))
        found = raise_(places[None], (1, *shape[1:]), order)
        runs = self.parts(found + 1, order) - 1
        if runs.shape[1] % unit:
            return False
        firsts, *others = np.moveaxis(runs.reshape(-1, unit), 1, 0)
        real = firsts >= 0
        whole = all(((other == firsts + i + 1) == real).all() for i, other in enumerate(others))
        return bool((firsts[real] % unit == 0).all()) and whole


def slices_of(layer: PrunableLayer) -> Slices | None:
    """Return the groups of a layer whose columns are too many; ``None`` for all others."""
    if layer.sort not in (LINEAR, CONV):
        return None
    _, channels, *taps = layer.shape
    columns = channels * math.prod(taps)
    if columns * columns <= ELEMENTS:
        return None
    most = max(ELEMENTS // columns // math.prod(taps), 1)
    aligned = min(ALIGNED, 1 << most.bit_length() - 1)
    return Slices(channels, most // aligned * aligned)
