"""A few elements of each weight, looked at in each call: some writes have no version."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from tvm_sparse.base.native import library

LOOKED_AT = 4096
"""Elements of a weight among which its samples are chosen."""


def samples(tensors: Sequence[torch.Tensor]) -> Callable[[], bool]:
    """Return a function that says whether a sample of ``tensors`` is another than now.

    They are on the host. What writes a whole weight changes its samples: ``weight.data.mul_(0.9)``,
    an average of weights, a merged adapter.
    """
    held = [tensor.detach() for tensor in tensors]
    chosen = [
        (tensor.data_ptr() + offset * tensor.element_size(), tensor.element_size())
        for tensor in held
        for offset in sampled(tensor)
    ]
    if not chosen:
        return lambda: False
    places, widths = (np.array(column, np.int64) for column in zip(*chosen, strict=True))
    found = np.zeros(len(chosen), np.uint64)
    read = library().read_samples
    read(places, widths, found, True)

    def changed(_held: list[torch.Tensor] = held) -> bool:
        return bool(read(places, widths, found, False))

    return changed


def differs(whole: Sequence[torch.Tensor], weights: Sequence[torch.Tensor]) -> Callable[[], bool]:
    """Return what :func:`samples` returns, for tensors on one device, which compares them there.

    Those in ``whole``, which are contiguous, are compared in all elements. A call puts a few
    kernels on the stream of torch, however many tensors there are, and waits for one number.
    """
    parts = [tensor.detach().reshape(-1) for tensor in whole]
    for tensor in weights:
        first = tensor.storage_offset()
        offsets = [first + offset for offset in sampled(tensor.detach())]
        parts += [tensor.detach().as_strided((1,), (1,), offset) for offset in offsets]
    if not parts:
        return lambda: False
    values = [part.view(torch.uint8) for part in parts]
    before = torch.cat(values)
    return lambda: not torch.equal(torch.cat(values), before)


def sampled(tensor: torch.Tensor) -> list[int]:
    """Return how many elements behind the first one of ``tensor`` its samples lie in memory.

    They are not zero, and the smallest and the largest of those looked at are among them: a mask
    that takes small ones away is seen, too.
    """
    count = tensor.numel()
    if tensor.layout != torch.strided or tensor.is_complex() or not count:
        return []
    numbers = torch.arange(0, count, max(1, count // LOOKED_AT))
    index = torch.unravel_index(numbers, tensor.shape) if tensor.dim() else ()
    values = tensor[index].reshape(-1).cpu().float().abs()
    (kept,) = torch.nonzero(values, as_tuple=True)
    if not len(kept):
        kept = torch.arange(len(values))
    order = kept[values[kept].argsort()]
    some = {int(order[0]), int(order[len(order) // 2]), int(order[-1]), int(kept[len(kept) // 3])}
    steps = zip(index, tensor.stride(), strict=True)
    offsets = sum((i * step for i, step in steps), torch.zeros_like(numbers))
    return [int(offsets[i]) for i in sorted(some)]
