"""``len(x)`` of a tensor is traced as its first extent, as ``x.shape[0]`` is."""

from __future__ import annotations

import builtins
from typing import Any

import torch
from torch import Tensor

_len = builtins.len


class TensorLengths:
    """While it is entered, ``len(x)`` of a tensor with an open first extent is that extent.

    Python makes a number of what ``__len__`` returns, and PyTorch then takes the extent for the
    example's. Its own export replaces ``max`` and ``min`` in the same way.
    """

    def __enter__(self) -> TensorLengths:
        """Begin."""
        builtins.len = _length
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        builtins.len = _len


def _length(x: Any, /) -> Any:
    if isinstance(x, Tensor) and x.dim() and isinstance(x.shape[0], torch.SymInt):
        return x.shape[0]
    return _len(x)
