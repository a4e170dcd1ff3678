"""Concatenations of several types, and with PyTorch's empty tensors, which fit any rank."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tvm_sparse.frontends.decompositions.table import aten, rule


@rule(aten.cat.default)
def _concatenate(tensors: Sequence[Tensor], dim: int = 0) -> Any:
    kept = [tensor for tensor in tensors if tensor.dim() != 1 or tensor.shape[0] != 0]
    same = len({tensor.dtype for tensor in tensors}) == 1
    if (same and len(kept) == len(tensors)) or not kept:
        return NotImplemented
    dtype = functools.reduce(torch.promote_types, [tensor.dtype for tensor in tensors])
    return torch.cat([tensor.to(dtype) for tensor in kept], dim)
