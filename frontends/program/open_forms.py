"""Functions of PyTorch that make numbers of open extents, in forms that leave them open."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from tvm_sparse.frontends.decompositions.recurrent import RECURRENT
from tvm_sparse.frontends.program import (  # noqa: F401 (they enter their forms)
    open_convolutions,
    open_indices,
    open_norms,
    open_pools,
    open_products,
    open_resizes,
    open_windows,
)
from tvm_sparse.frontends.program.open_table import (
    FORMS,
    LEFT_OF_MULTIPLES,
    is_open,
    rewrites,
)


class OpenForms(TorchFunctionMode):
    """While it is entered, what takes an open extent for a number is written otherwise.

    before: ``torch.linspace(0, 1, n)`` --> after: ``0 + arange(n) * (1 / (n - 1))``
    """

    def __init__(self, *, multiples: bool = False) -> None:
        """Enter forms; ``multiples`` tells whether multiples of dimensions are open."""
        super().__init__()
        self._left = LEFT_OF_MULTIPLES if multiples else frozenset()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Call ``func``, or what has its result and leaves extents open."""
        write = None if func in self._left else FORMS.get(func)
        result = NotImplemented if write is None else write(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {})) if result is NotImplemented else result


def _recurrent(cell: str) -> None:
    @rewrites(cell)
    def write(x: Tensor, states: Any, weights: Any, *options: Any) -> Any:
        packed = not isinstance(weights, list | tuple)
        if packed or not is_open(*x.shape[:2]):
            return NotImplemented
        return RECURRENT[cell](x, states, weights, *options)


@rewrites("nn.functional.one_hot")
def _one_hot(x: Tensor, num_classes: Any = -1) -> Any:
    if not is_open(num_classes):
        return NotImplemented
    return (x.unsqueeze(-1) == torch.arange(num_classes, device=x.device)).long()


@rewrites("linspace")
def _linspace(start: Any, end: Any, steps: Any, *, dtype: Any = None, **options: Any) -> Any:
    """Return what PyTorch does: its second half is counted from the end."""
    if not is_open(steps) or isinstance(start, Tensor) or isinstance(end, Tensor):
        return NotImplemented
    places = torch.arange(steps, device=options.get("device"))
    step = (end - start) / torch.sym_max(steps - 1, 1)
    front, back = start + places * step, end - (steps - 1 - places) * step
    half = torch.sym_max(steps // 2, 1)  # a single place is the start
    return torch.where(places < half, front, back).to(dtype or torch.get_default_dtype())


@rewrites("nn.functional.affine_grid", "affine_grid_generator")
def _affine_grid(theta: Tensor, size: Any, align_corners: bool | None = None) -> Any:
    """Transform the places of all elements of the last axes of ``size``, from -1 to 1 each."""
    if not is_open(*size[2:]):
        return NotImplemented
    axes = [_places(extent, align_corners=bool(align_corners)) for extent in reversed(size[2:])]
    grids = torch.meshgrid(*reversed(axes), indexing="ij")
    known = torch.stack([*reversed(grids), torch.ones_like(grids[0])], -1).to(theta)
    found = known.flatten(0, -2) @ theta.transpose(1, 2)
    return found.unflatten(1, list(size[2:]))


def _places(extent: Any, *, align_corners: bool) -> Tensor:
    """Return the middles of elements, or with ``align_corners`` the first at -1, the last at 1."""
    if not is_open(extent):
        ends: Tensor = torch.linspace(-1, 1, extent) if extent > 1 else torch.zeros(1)
    else:  # the only element of an axis is in its middle
        ends = _linspace(-1, 1, extent) * torch.sym_min(extent - 1, 1)
    return ends if align_corners else ends * ((extent - 1) / extent)


for _cell in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
    _recurrent(_cell)
