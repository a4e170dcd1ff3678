"""Resizing of planes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tvm_sparse.frontends.decompositions.table import aten, rule


@rule(aten.upsample_nearest2d.vec)
def _nearest(
    x: Tensor, output_size: Sequence[int] | None, scale_factors: Sequence[float] | None
) -> Any:
    """TVM rounds differently unless one size is a multiple of the other."""
    sizes = output_size
    if sizes is None and scale_factors is not None:
        sizes = [int(e * s) for e, s in zip(x.shape[2:], scale_factors, strict=True)]
    pairs = list(zip(x.shape[2:], sizes or (), strict=True))
    if not all(isinstance(n, int) and isinstance(m, int) for n, m in pairs):
        return NotImplemented
    if all(m % n == 0 or n % m == 0 for n, m in pairs):
        return NotImplemented
    for axis, (size, wanted) in enumerate(pairs):
        step = 1 / scale_factors[axis] if scale_factors else size / wanted
        places = (torch.arange(wanted, device=x.device, dtype=torch.float32) * step).clamp(
            max=size - 1
        )
        x = x.index_select(axis + 2, places.to(torch.int64))
    return x
