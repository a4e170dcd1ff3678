"""Whether weights have changed since they were packed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from tvm_sparse.dynamo.samples import samples
from tvm_sparse.frontends.modules.effective import to_numpy

SMALL = 1 << 16
"""Bytes of a buffer that are compared at each call, if it has several axes."""


class _FusedSteps:
    """How many steps fused optimizers have made: they write without a version."""

    def __init__(self) -> None:
        self.count = 0
        register_optimizer_step_post_hook(self)

    def __call__(self, optimizer: Any, *_: Any) -> None:
        self.count += any(group.get("fused") for group in optimizer.param_groups)


_FUSED = _FusedSteps()


def snapshot(tensors: Sequence[torch.Tensor], *, values: bool) -> Callable[[Sequence[Any]], bool]:
    """Return a function that says whether other tensors are these, unchanged.

    ``values`` compares them whole. So are tensors that PyTorch counts no versions of, all of them
    after a step of a fused optimizer, and buffers that layers may write without a version: the
    statistics of a batch norm. Of the others a few values are compared: see ``samples``.
    """
    values = values or any(tensor.is_inference() for tensor in tensors)
    # Aliases keep the memory from being used again, so that an address stands for a tensor.
    held = [tensor.detach() for tensor in tensors]
    digest, steps = content(held), _FUSED.count
    if values:
        return lambda others: content(others) == digest
    before = [tensor._version for tensor in tensors]
    statistics = [_bytes(tensor) for tensor in tensors if _is_statistics(tensor)]
    numbers = [read() for read in statistics]
    written = samples([tensor for tensor in held if not _is_wrapped(tensor)])

    def same(others: Sequence[Any]) -> bool:
        nonlocal steps
        if any(other.is_inference() for other in others) or not all(
            other.data_ptr() == kept.data_ptr() and other._version == version
            for other, kept, version in zip(others, held, before, strict=True)
        ):
            return False
        if written() or [read() for read in statistics] != numbers:
            return False
        if steps != _FUSED.count:
            if content(held) != digest:
                return False
            steps = _FUSED.count
        return True

    return same


def _is_statistics(tensor: torch.Tensor) -> bool:
    """Whether a layer may write ``tensor`` when it runs, and it is compared in no time."""
    return not isinstance(tensor, nn.Parameter) and (tensor.dim() <= 1 or tensor.nbytes <= SMALL)


def _bytes(tensor: torch.Tensor) -> Callable[[], bytes]:
    """Return a function that returns the bytes of ``tensor`` as they are then."""
    held = tensor.detach()
    if not held.is_contiguous() or _is_wrapped(held):
        return lambda: content([held]).encode()
    return held.reshape(-1).view(torch.uint8).numpy().tobytes


def _is_wrapped(tensor: torch.Tensor) -> bool:
    """Whether ``tensor`` has no memory of its own, as those of quantisers have none."""
    return type(tensor) not in (torch.Tensor, nn.Parameter) or tensor.layout != torch.strided


def content(tensors: Sequence[torch.Tensor]) -> str:
    """Return a digest of the values of ``tensors``."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
        digest.update(to_numpy(tensor, "weight").tobytes())
    return digest.hexdigest()
