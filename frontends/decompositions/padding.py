"""Padding with what the tensor holds: pieces of it are joined, along one axis after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from tvm_sparse.frontends.decompositions.table import aten, rule


@rule(aten.pad.default)
def _pad(x: Tensor, pad: Sequence[int], mode: str = "constant", value: Any = None) -> Any:
    """PyTorch's own rules gather every element, or scatter into an empty tensor."""
    if mode not in _BORDERS or not all(isinstance(width, int) and width >= 0 for width in pad):
        return NotImplemented
    for number in range(len(pad) // 2):
        before, after = pad[2 * number : 2 * number + 2]
        first, last = _BORDERS[mode](x, x.dim() - 1 - number, before, after)
        pieces = [first] * (before > 0) + [x] + [last] * (after > 0)
        x = torch.cat(pieces, x.dim() - 1 - number) if len(pieces) > 1 else x
    return x


def _reflected(x: Tensor, axis: int, before: int, after: int) -> tuple[Tensor, Tensor]:
    last = x.shape[axis] - 1 - after
    return x.narrow(axis, 1, before).flip(axis), x.narrow(axis, last, after).flip(axis)


def _repeated(x: Tensor, axis: int, before: int, after: int) -> tuple[Tensor, Tensor]:
    def edge(place: int, count: int) -> Tensor:
        shape = [count if i == axis else -1 for i in range(x.dim())]
        return x.narrow(axis, place, 1).expand(shape)

    return edge(0, before), edge(x.shape[axis] - 1, after)


def _around(x: Tensor, axis: int, before: int, after: int) -> tuple[Tensor, Tensor]:
    return x.narrow(axis, x.shape[axis] - before, before), x.narrow(axis, 0, after)


_BORDERS: dict[str, Callable[[Tensor, int, int, int], tuple[Tensor, Tensor]]] = {
    "reflect": _reflected,
    "replicate": _repeated,
    "circular": _around,
}
"""By mode: what stands before and behind a tensor along an axis, so many elements of each."""
