"""Places given by tensors without axes, which PyTorch's exporter knows in ``x[i]`` alone."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_INDEXING = (torch.Tensor.__setitem__, torch.Tensor.__getitem__)
_NARROW = (torch.narrow, torch.Tensor.narrow)


class TensorPlaces(TorchFunctionMode):
    """While it is entered, places in ``x[:, i] = y``, ``x[i, j]`` and ``narrow`` are numbers.

    before: ``x[:, i] = y`` --> after: ``x.select(1, i.item())[:] = y``
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Call ``func`` with numbers for tensors of one integer."""
        if func in _INDEXING:
            x, places, *value = args
            items = list(places) if isinstance(places, tuple) else [places]
            if any(map(_has_place, items)):
                args = (*_selected(x, items), *value)
        elif func in _NARROW and len(args) == 4 and _is_place(args[2]):
            x, dim, start, length = args
            first = start.item()
            torch._check(first >= 0)
            torch._check(first + length <= x.shape[dim])
            args = x, dim, first, length
        return func(*args, **(kwargs or {}))


def _is_place(value: Any) -> bool:
    """Whether ``value`` is a tensor of one integer without axes."""
    if not isinstance(value, torch.Tensor) or value.dim() or value.dtype == torch.bool:
        return False
    return not (value.is_floating_point() or value.is_complex())


def _has_place(item: Any) -> bool:
    bounds = (item.start, item.stop, item.step) if isinstance(item, slice) else (item,)
    return any(map(_is_place, bounds))


def _number(value: Any) -> Any:
    return value.item() if _is_place(value) else value


def _with_numbers(item: Any) -> Any:
    """Return a slice with numbers as bounds, anything else as it is."""
    if not isinstance(item, slice):
        return item
    return slice(_number(item.start), _number(item.stop), _number(item.step))


def _selected(x: torch.Tensor, items: list[Any]) -> tuple[torch.Tensor, tuple[Any, ...]]:
    """Return the view of ``x`` at the places among ``items``, and the items that are left."""
    rest: list[Any] = []
    left = x.dim() - sum(map(_axes, items))
    axis = 0
    for item in items:
        if _is_place(item):
            x = x.select(axis, item.item())
            continue
        rest.append(_with_numbers(item))
        axis += left if item is Ellipsis else _axes(item)
    return x, tuple(rest) or (Ellipsis,)


def _axes(item: Any) -> int:
    """Return how many axes an index takes."""
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    mask = isinstance(item, torch.Tensor) and item.dtype in (torch.bool, torch.uint8)
    return item.dim() if mask else 1
