"""Samples of an operator with one axis opened: what has to grow along, and to which sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tests.suites.opinfo import Call

Axes = tuple[tuple[int, int], ...]
"""Numbers of tensors, and an axis of each: the same extent."""


class Sized(Call):
    """A call whose numbers follow from an open extent if they equal it: ``x.expand(n, -1)``."""

    def __init__(self, operator: Callable[..., Any], sample: Any, axis: int, *, follow: bool):
        super().__init__(operator, sample)
        self.axis, size = axis, self.inputs[0].shape[axis]
        numbers = [i for i, x in enumerate(self.leaves) if type(x) is int and x == size]
        self.numbers = numbers if follow else []

    def called(self, *tensors: Tensor) -> Any:
        """Return what the operator returns."""
        kept = list(self.leaves)
        for place in self.numbers:
            self.leaves[place] = tensors[0].shape[self.axis]
        try:
            return super().forward(*tensors)
        finally:
            self.leaves = kept


@dataclass(frozen=True)
class Opened:
    """A sample with one open extent."""

    call: Callable[..., Any]
    inputs: tuple[Tensor, ...]
    axes: Axes
    size: int
    """That of the example."""
    sizes: tuple[int, ...] = ()
    """Others that PyTorch runs."""
    low: int = 1
    """The least size from which on PyTorch runs each one."""

    def at(self, size: int) -> tuple[Tensor, ...]:
        """Return the inputs with the open extent at ``size``."""
        return tuple(
            _resized(x, [axis for n, axis in self.axes if n == number], size)
            for number, x in enumerate(self.inputs)
        )

    def shapes(self, dim: Any) -> tuple[dict[int, Any] | None, ...]:
        """Return the open axes as :func:`torch.export.export` takes them."""
        found: list[dict[int, Any]] = [{} for _ in self.inputs]
        for number, axis in self.axes:
            found[number][axis] = dim
        return tuple(axes or None for axes in found)

    def runs(self, size: int) -> bool:
        """Whether PyTorch runs it at ``size``."""
        try:
            self.call(*self.at(size))
        except Exception:
            return False
        return True


def opened(operator: Callable[..., Any], sample: Any, axis: int) -> Opened | None:
    """Return ``sample`` with ``axis`` of its first tensor open; None where PyTorch runs no other.

    The axis may be that of other tensors too, and numbers may follow from it.
    """
    inputs = Call(operator, sample).inputs
    if not inputs or not -inputs[0].dim() <= axis < inputs[0].dim():
        return None
    for follow in (False, True) if inputs[0].shape[axis] > 1 else ():
        call = _named(len(inputs))(operator, sample, axis, follow=follow).eval()
        found = with_sizes(call, inputs, axis) if call.numbers or not follow else None
        if found is not None:
            return found
    return None


def with_sizes(call: Callable[..., Any], inputs: tuple[Tensor, ...], axis: int) -> Opened | None:
    """Return the call with ``axis`` of its first tensor open; None where it runs at no other size.

    ``call`` raises where it does not run.
    """
    size = inputs[0].shape[axis]
    for axes in _groups(inputs, axis):
        case = Opened(call, inputs, axes, size)
        sizes = [s for s in (1, 2, 7, 2 * size + 1, 37) if s != size and case.runs(s)]
        if any(s > size for s in sizes):
            low = _least(case)
            return Opened(call, inputs, axes, size, tuple(s for s in sizes if s >= low), low)
    return None


def _least(case: Opened) -> int:
    low = case.size
    while low > 1 and case.runs(low - 1):
        low -= 1
    return low


def _named(count: int) -> type[Sized]:
    """Return the class of calls with so many arguments of their own, as models have."""
    names = ", ".join(f"x{i}" for i in range(count))
    space: dict[str, Any] = {}
    exec(f"def forward(self, {names}):\n    return self.called({names})", space)
    return type(f"Call{count}", (Sized,), {"forward": space["forward"]})


def _groups(tensors: Sequence[Tensor], axis: int) -> Iterator[Axes]:
    """Yield what may have the extent of ``axis`` of the first tensor: it alone, and others too."""
    first = tensors[0]
    size, own = first.shape[axis], axis % first.dim()
    every = [
        (n, a, x.dim()) for n, x in enumerate(tensors) for a, e in enumerate(x.shape) if e == size
    ]
    mine = (0, own)
    found: list[Axes] = [
        (mine,),
        tuple((n, a) for n, a, _ in every if a == own),
        tuple((n, a) for n, a, rank in every if a - rank == own - first.dim()),
        tuple((n, a) for n, a, _ in every if n > 0 or a == own),
        tuple((n, a) for n, a, _ in every),
    ]
    yield from dict.fromkeys(axes for axes in found if mine in axes)


def _resized(x: Tensor, axes: Sequence[int], size: int) -> Tensor:
    """Return ``x`` with ``axes`` at ``size``: its elements, and behind them others like them."""
    own = torch.ones((), dtype=torch.bool)
    for axis in axes:
        extent, places = x.shape[axis], torch.arange(size)
        x = x.index_select(axis, places % extent)
        own = own & (places < extent).reshape([-1, *[1] * (x.dim() - 1 - axis)])
    if not axes or not x.is_floating_point():
        return x.clone()
    noise = torch.rand(x.shape, generator=torch.Generator().manual_seed(size))
    return torch.where(own, x, x * (1 + noise.to(x) / 8))
