"""Whether weights have changed since they were packed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from tvm_sparse.dynamo.devices import HOST
from tvm_sparse.dynamo.samples import differs, samples
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


def snapshot(tensors: Sequence[torch.Tensor], check: str) -> Callable[[Sequence[Any]], bool]:
    """Return a function that says whether other tensors are these, unchanged.

    ``"values"`` compares them whole. So are tensors that PyTorch counts no versions of, and all of
    them after a step of a fused optimizer. ``"versions"`` also compares buffers that layers may
    write without a version, like the statistics of a batch norm. Of the others it compares a few
    values: see ``samples``.
    """
    # Aliases keep the memory from being used again, so that an address stands for a tensor.
    held = [tensor.detach() for tensor in tensors]
    digest, steps = content(held), _FUSED.count
    if check == "values" or any(tensor.is_inference() for tensor in tensors):
        return lambda others: content(others) == digest
    before = [tensor._version for tensor in tensors]
    written = _written(tensors) if check == "versions" else lambda: False

    def same(others: Sequence[Any]) -> bool:
        nonlocal steps
        if any(other.is_inference() for other in others) or not all(
            other.data_ptr() == kept.data_ptr() and other._version == version
            for other, kept, version in zip(others, held, before, strict=True)
        ):
            return False
        if written():
            return False
        if steps != _FUSED.count:
            if content(held) != digest:
                return False
            steps = _FUSED.count
        return True

    return same


def _written(tensors: Sequence[torch.Tensor]) -> Callable[[], bool]:
    """Return a function that looks at some values and says whether they are others than now."""
    plain = [tensor for tensor in tensors if not _is_wrapped(tensor)]
    there = [tensor for tensor in plain if tensor.device != HOST]
    whole = [t for t in there if _is_statistics(t) and t.is_contiguous()]
    compared = {*map(id, whole)}
    read = [_bytes(t) for t in tensors if _is_statistics(t) and id(t) not in compared]
    before = [values() for values in read]
    differ = differs(whole, [tensor for tensor in there if id(tensor) not in compared])
    written = samples([tensor for tensor in plain if tensor.device == HOST])
    return lambda: written() or differ() or [values() for values in read] != before


def _is_statistics(tensor: torch.Tensor) -> bool:
    """Whether a layer may write ``tensor`` when it runs, and it is compared in no time."""
    return not isinstance(tensor, nn.Parameter) and (tensor.dim() <= 1 or tensor.nbytes <= SMALL)


def _bytes(tensor: torch.Tensor) -> Callable[[], bytes]:
    """Return a function that returns the bytes of ``tensor`` as they are then."""
    held = tensor.detach()
    if not held.is_contiguous() or _is_wrapped(held) or held.device != HOST:
        return lambda: content([held]).encode()
    return held.reshape(-1).view(torch.uint8).numpy().tobytes


def _is_wrapped(tensor: torch.Tensor) -> bool:
    """Whether ``tensor`` has no memory of its own, as those of quantizers have none."""
    return type(tensor) not in (torch.Tensor, nn.Parameter) or tensor.layout != torch.strided


def content(tensors: Sequence[torch.Tensor]) -> str:
    """Return a digest of the values of ``tensors``."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
        digest.update(to_numpy(tensor, "weight").tobytes())
    return digest.hexdigest()
