"""Transposed convolutions whose result has the size of another plane, which is open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tvm_sparse.frontends.converters.axes import for_each_axis
from tvm_sparse.frontends.program.open_table import is_open, rewrites


def _transposed(name: str, rank: int) -> None:
    convolve: Callable[..., Any] = getattr(torch, name)

    @rewrites(name)
    def write(  # noqa: PLR0917 (the function's own signature)
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Any:
        """Compute as many rows as any padding leaves, and keep those that are asked for.

        ``nn.ConvTranspose2d(...)(x, output_size=y.shape[-2:])`` pads by what the sizes leave.
        """
        extra = output_padding if isinstance(output_padding, tuple | list) else [output_padding]
        if not is_open(*extra):
            return NotImplemented
        extra = list(extra) * (rank // len(extra))
        steps, apart = for_each_axis(stride, rank), for_each_axis(dilation, rank)
        most = [max(pair) - 1 for pair in zip(steps, apart, strict=True)]
        wide = convolve(x, weight, bias, steps, padding, most, groups, apart)
        for axis in range(-rank, 0):
            wide = wide.narrow(axis, 0, wide.shape[axis] - (most[axis] - extra[axis]))
        return wide


for _rank in (1, 2, 3):
    _transposed(f"conv_transpose{_rank}d", _rank)
