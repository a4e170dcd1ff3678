"""Values known at import: constants, shapes, and what is computed from them.

Exporters write much arithmetic on shapes. It is done here in NumPy, so that a reshape finds its
target shape. Extents may be symbols of ``torch.export``; arrays that hold some have dtype object.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import torch

from tvm_sparse.frontends.onnx.node import Node
from tvm_sparse.frontends.onnx.shape_arithmetic import ARITHMETIC, LARGEST_INTEGERS
from tvm_sparse.frontends.onnx.types import dtype_of, to_tensor

LARGEST_FLOATS = 64
"""Elements of the longest row of floats that takes part in this arithmetic. Weights are longer, or
have more axes, and stay tensors with their names."""


@dataclass(frozen=True)
class Known:
    """An array, and where it is a weight the tensor with its name."""

    array: np.ndarray
    weight: torch.Tensor | None = None

    def tensor(self) -> torch.Tensor:
        """Return the array as a tensor."""
        if self.weight is not None:
            return self.weight
        if self.array.dtype == ml_dtypes.bfloat16:  # whose memory no program can reinterpret
            return to_tensor(self.array.astype(np.float32)).to(torch.bfloat16)
        if self.array.dtype != object:
            return to_tensor(self.array)
        places = [torch.scalar_tensor(x, dtype=torch.int64) for x in self.array.reshape(-1)]
        return torch.stack(places).reshape(self.array.shape)


@dataclass(frozen=True)
class RealExtents(Known):
    """Open extents that became floats, ``weight``: only a range asks what they were, ``array``."""


@dataclass(frozen=True)
class Series:
    """A sequence of values, each a tensor or a :class:`Known`."""

    values: tuple[Any, ...]


def is_small(array: np.ndarray) -> bool:
    """Whether ``array`` can be known: an index or shape, or a short row of numbers."""
    if array.dtype.kind in "iubO":
        return array.size <= LARGEST_INTEGERS
    return array.ndim <= 1 and array.size <= LARGEST_FLOATS


def shape_array(shape: Sequence[Any]) -> np.ndarray:
    """Return extents, some of them symbols perhaps, as an array."""
    return _plain(np.array([*shape, None], object)[:-1])


def compute(node: Node, inputs: Sequence[Known | None]) -> Known | None:
    """Return the only output of ``node`` on known inputs, or None where it is not arithmetic."""
    function = ARITHMETIC.get(node.operator)
    if function is None or node.domain or any(isinstance(x, RealExtents) for x in inputs):
        return None
    arrays = [None if x is None else x.array for x in inputs]
    if any(a is not None and not is_small(a) for a in arrays):
        return None
    result = function(node, *arrays)
    if result is None:
        return _real(node, inputs)
    result = _plain(np.asarray(result))
    return Known(result) if is_small(result) else None


def _real(node: Node, inputs: Sequence[Known | None]) -> RealExtents | None:
    """Return what a cast to floats makes of open extents, None of everything else."""
    x = inputs[0] if node.operator == "Cast" else None
    if x is None or x.array.dtype != object:
        return None
    dtype = dtype_of(node.attributes["to"], node.place)
    whole = all(isinstance(one, int | torch.SymInt) for one in x.array.reshape(-1).tolist())
    return RealExtents(x.array, x.tensor().to(dtype)) if whole and dtype in _REAL else None


_REAL = {torch.float32, torch.float64}


def _plain(array: np.ndarray) -> np.ndarray:
    """Return an array of integers where no element is a symbol."""
    if array.dtype != object:
        return array
    if all(isinstance(x, bool | np.bool_) for x in array.reshape(-1)) and array.size:
        return array.astype(np.bool_)
    if any(isinstance(x, torch.SymInt | torch.SymBool | torch.SymFloat) for x in array.reshape(-1)):
        return array
    return array.astype(np.int64)
