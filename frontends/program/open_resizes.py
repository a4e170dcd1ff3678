"""Antialiased resizing of planes where an extent is open, as products with tables of weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tvm_sparse.frontends.program.open_table import is_open, rewrites

_SHARPNESS = -0.5
"""Of the cubic filter: what PyTorch takes where it smooths."""


def _linear(far: Tensor) -> Tensor:
    return (1 - far).clamp(min=0)


def _cubic(far: Tensor) -> Tensor:
    a = _SHARPNESS
    near = ((a + 2) * far - (a + 3)) * far * far + 1
    behind = (((far - 5) * far + 8) * far - 4) * a
    return torch.where(far < 1, near, torch.where(far < 2, behind, 0.0))


_FILTERS: dict[str, Callable[[Tensor], Tensor]] = {"bilinear": _linear, "bicubic": _cubic}


@rewrites("nn.functional.interpolate")
def _interpolate(  # noqa: PLR0917 (the function's own signature)
    x: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    """Resize the rows, then the columns: ``rows @ x @ columns.mT``."""
    plain = scale_factor is None and not align_corners and x.is_floating_point()
    if not (antialias and plain and mode in _FILTERS and x.dim() == 4):
        return NotImplemented
    wanted = list(size) if isinstance(size, tuple | list) else [size] * 2
    if not is_open(*wanted, *x.shape[2:]):
        return NotImplemented
    rows, columns = (
        _weights(before, after, _FILTERS[mode]).to(x)
        for before, after in zip(x.shape[2:], wanted, strict=True)
    )
    return rows @ x @ columns.mT


def _weights(before: Any, after: Any, shape: Callable[[Tensor], Tensor]) -> Tensor:
    """Return ``(after, before)``: how much of each element is in each new one.

    The filter is as wide as an element of the smaller of both planes.
    """
    scale = torch.scalar_tensor(before / after, dtype=torch.float64)
    centres = (torch.arange(after, dtype=torch.float64) + 0.5) * scale
    places = torch.arange(before, dtype=torch.float64) + 0.5
    found = shape((places - centres.unsqueeze(1)).abs() / scale.clamp(min=1))
    return found / found.sum(1, keepdim=True)
