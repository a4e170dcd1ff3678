"""Reductions along axes: attributes in old versions, an input that must be known in new ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tvm_sparse.frontends.onnx.registry import converter

Reduction = Callable[[Tensor, list[int], bool], Tensor]


def _sum(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    return torch.sum(x, axes, keepdim=keep, dtype=x.dtype)


def _mean(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    if x.is_floating_point():
        return torch.mean(x, axes, keepdim=keep)
    count = int(np.prod([x.shape[axis] for axis in axes]))
    return torch.div(_sum(x, axes, keep), count, rounding_mode="trunc")


def _product(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    for axis in sorted(axes, reverse=True):
        x = torch.prod(x, axis, keepdim=keep, dtype=x.dtype)
    return x


def _largest(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    if x.dtype == torch.bool:
        return _largest(x.to(torch.uint8), axes, keep) != 0
    if _empty(x, axes):
        return _filled(x, axes, keep, -torch.inf)
    return torch.amax(x, axes, keep)


def _smallest(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    if x.dtype == torch.bool:
        return _smallest(x.to(torch.uint8), axes, keep) != 0
    if _empty(x, axes):
        return _filled(x, axes, keep, torch.inf)
    return torch.amin(x, axes, keep)


def _empty(x: Tensor, axes: list[int]) -> bool:
    return any(isinstance(x.shape[axis], int) and x.shape[axis] == 0 for axis in axes)


def _filled(x: Tensor, axes: list[int], keep: bool, value: float) -> Tensor:
    """Return the neutral element of an empty set: the type's own bound for integers."""
    if not x.is_floating_point():
        limits = torch.iinfo(x.dtype)
        value = limits.max if value > 0 else limits.min
    shape = [1 if i in axes else n for i, n in enumerate(x.shape) if keep or i not in axes]
    return x.new_full(shape, value)


def _log_sum_exp(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    if _empty(x, axes):
        return _filled(x, axes, keep, -torch.inf)
    return torch.logsumexp(x, axes, keep)


_REDUCTIONS: dict[str, Reduction] = {
    "ReduceSum": _sum,
    "ReduceMean": _mean,
    "ReduceProd": _product,
    "ReduceMax": _largest,
    "ReduceMin": _smallest,
    "ReduceL1": lambda x, axes, keep: _sum(x.abs(), axes, keep),
    "ReduceL2": lambda x, axes, keep: _sum(x * x, axes, keep).sqrt(),
    "ReduceSumSquare": lambda x, axes, keep: _sum(x * x, axes, keep),
    "ReduceLogSum": lambda x, axes, keep: _sum(x, axes, keep).log(),
    "ReduceLogSumExp": _log_sum_exp,
}


def _reduced(
    reduction: Reduction, x: Tensor, axes: Sequence[int] | None, keep: int, noop: int
) -> Tensor:
    if not axes and noop:
        return x
    places = sorted({axis % x.dim() for axis in axes}) if axes else list(range(x.dim()))
    return reduction(x, places, bool(keep)) if x.dim() else reduction(x[None], [0], False)


def _enter(operator: str, reduction: Reduction) -> None:
    @converter(operator)
    def of_attribute(x: Tensor, *, axes: Any = None, keepdims: int = 1) -> Tensor:
        return _reduced(reduction, x, axes, keepdims, 0)

    @converter(operator, since=13 if operator == "ReduceSum" else 18, static=["axes"])
    def of_input(
        x: Tensor,
        axes: np.ndarray | None = None,
        *,
        keepdims: int = 1,
        noop_with_empty_axes: int = 0,
    ) -> Tensor:
        places = None if axes is None else axes.reshape(-1).tolist()
        return _reduced(reduction, x, places, keepdims, noop_with_empty_axes)


for _operator, _reduction in _REDUCTIONS.items():
    _enter(_operator, _reduction)


@converter("ArgMax")
def _place_of_largest(
    x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
) -> Tensor:
    return _place(torch.argmax, x, axis, keepdims, select_last_index)


@converter("ArgMin")
def _place_of_smallest(
    x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
) -> Tensor:
    return _place(torch.argmin, x, axis, keepdims, select_last_index)


def _place(function: Any, x: Tensor, axis: int, keep: int, last: int) -> Tensor:
    """Return the first place of the extremum; the last one is the first from behind."""
    if not last:
        return function(x, axis, keepdim=bool(keep))
    return x.shape[axis] - 1 - function(x.flip(axis), axis, keepdim=bool(keep))


@converter("CumSum", static=["axis"])
def _cumulative_sum(x: Tensor, axis: np.ndarray, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    return _scanned(torch.cumsum, x, axis, exclusive=exclusive, reverse=reverse)


@converter("CumProd", static=["axis"])
def _cumulative_product(
    x: Tensor, axis: np.ndarray, *, exclusive: int = 0, reverse: int = 0
) -> Tensor:
    return _scanned(torch.cumprod, x, axis, exclusive=exclusive, reverse=reverse)


def _scanned(
    function: Any, x: Tensor, along: np.ndarray, *, exclusive: int, reverse: int
) -> Tensor:
    """Scan; exclusive results are shifted by one, reverse ones come from behind."""
    axis, neutral = int(along.reshape(())), 1 if function is torch.cumprod else 0
    x = x.flip(axis) if reverse else x
    if exclusive:
        first = torch.full_like(x.narrow(axis, 0, 1), neutral)
        x = torch.cat([first, x.narrow(axis, 0, x.shape[axis] - 1)], axis)
    result = function(x, axis, dtype=x.dtype)
    return result.flip(axis) if reverse else result
