"""Whether weights have changed since they were packed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tvm_sparse.frontends.effective import to_numpy


def snapshot(tensors: Sequence[torch.Tensor], *, values: bool) -> Callable[[Sequence[Any]], bool]:
    """Return a function that says whether other tensors are these, unchanged.

    ``values`` compares them whole. So are tensors that PyTorch counts no versions of.
    """
    values = values or any(tensor.is_inference() for tensor in tensors)
    # Aliases keep the memory from being used again, so that an address stands for a tensor.
    held = [tensor.detach() for tensor in tensors]
    before = [] if values else [tensor._version for tensor in tensors]
    digest = content(held) if values else ""

    def same(others: Sequence[Any]) -> bool:
        if values or any(other.is_inference() for other in others):
            return values and content(others) == digest
        return all(
            other.data_ptr() == kept.data_ptr() and other._version == version
            for other, kept, version in zip(others, held, before, strict=True)
        )

    return same


def content(tensors: Sequence[torch.Tensor]) -> str:
    """Return a digest of the values of ``tensors``."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
        digest.update(to_numpy(tensor, "weight").tobytes())
    return digest.hexdigest()
