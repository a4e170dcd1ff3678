"""The weight of a layer as matrices, and back."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from tvm_sparse.base.denormals import flushed
from tvm_sparse.patterns.exchange import Exchange
from tvm_sparse.patterns.lowering import lower, raise_
from tvm_sparse.pruning.compensation.slices import slices_of
from tvm_sparse.pruning.layers import PrunableLayer
from tvm_sparse.pruning.methods.base import Method


class View:
    """The weight of ``layer`` as parts of a matrix, its columns in ``order``."""

    def __init__(self, layer: PrunableLayer, order: str) -> None:
        self.layer, self.order = layer, order
        self.slices = slices_of(layer)
        _, channels, *taps = layer.shape
        shape = (channels if self.slices is None else self.slices.width, *taps)
        places = np.arange(math.prod(shape)).reshape(1, *shape)
        self.places = torch.from_numpy(lower(places, order)[0])

    def columns(self, matrix: Tensor) -> Tensor:
        """Return a matrix (parts, columns, columns) of ``ihw`` columns in our order."""
        return matrix[:, self.places[:, None], self.places]

    def parts(self, array: np.ndarray, count: int) -> Tensor:
        """Return ``array``, in the weight's shape, as (parts, rows, columns)."""
        slices = self.slices
        found = lower(array, self.order) if slices is None else slices.parts(array, self.order)
        return torch.from_numpy(found).unflatten(0, (count, -1))

    def alive(self, mask: Tensor) -> Tensor:
        """Return which weights were not pruned before, like ``mask`` (parts, rows, columns)."""
        found = self.layer.alive()
        if found is None:
            found = np.ones(self.layer.shape, bool)
        return self.parts(found, len(mask)).to(mask)

    def array(self, parts: Tensor) -> np.ndarray:
        """Undo :meth:`parts`."""
        rows, shape = parts.flatten(0, 1).cpu().numpy(), self.layer.shape
        if self.slices is not None:
            return self.slices.whole(rows, shape, self.order)
        return raise_(rows, shape, self.order)

    def exchange(self, method: Method, columns: int) -> Exchange | None:
        """Return what may change places in matrices of so many ``columns``."""
        found, slices = method.exchange(columns), self.slices
        if found is None or slices is None or slices.keeps(found, self.layer.shape, self.order):
            return found
        return None

    def tensor(self, parts: Tensor) -> Tensor:
        """Return ``parts`` as the layer's own parameter would hold them."""
        dtype = np.float64 if self.layer.weight.dtype == torch.float64 else np.float32
        return torch.from_numpy(flushed(self.array(parts).astype(dtype))).to(self.layer.weight)
