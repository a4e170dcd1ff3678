"""Slices as copies: PyTorch asks of a view whether it fills memory, which decides nothing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from tvm_sparse.frontends.program.open_slices import sliced


class CopiedSlices(TorchFunctionMode):
    """While it is entered, slices of open extents are copies.

    before: ``x[:, :m]`` --> after: ``clone(x[:, :m])``

    Whether a view of ``m`` of ``n`` rows fills memory is ``m == n``, which PyTorch would make a
    condition of the program. What is written into such a slice is lost: a program that writes
    is traced without this mode.
    """

    def __init__(self) -> None:
        super().__init__()
        self.has_copied = False
        """Whether there was one."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Call ``func``, and copy what it cuts."""
        call = sliced if func in _SLICES else func
        result = call(*args, **(kwargs or {}))
        if func not in _CUTS or not isinstance(result, Tensor):
            return result
        is_open = any(isinstance(extent, torch.SymInt) for extent in result.stride())
        is_open = is_open or any(isinstance(extent, torch.SymInt) for extent in result.shape)
        self.has_copied |= is_open
        return result.clone(memory_format=torch.contiguous_format) if is_open else result


_SLICES = {torch.ops.aten.slice, torch.ops.aten.slice.Tensor}
"""What PyTorch makes of ``x[:, :m]`` while it exports."""

_CUTS = {*_SLICES, Tensor.__getitem__, Tensor.narrow, torch.narrow}
