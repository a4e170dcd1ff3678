"""Bytes as tensors of PyTorch: a byte ``q`` means ``(q - zero) * scale``."""

from __future__ import annotations

import torch
from torch import Tensor


def typed(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return ``x`` in ``dtype``; a trace gets no operations where it has that already."""
    return x if x.dtype == dtype else x.to(dtype)


def centred(x: Tensor, zero: Tensor | None) -> Tensor:
    """Return ``x - zero`` in 32 bits, which neither can leave."""
    x = typed(x, torch.int32)
    return x if zero is None else x - typed(zero, torch.int32)


def meant(x: Tensor, scale: Tensor, zero: Tensor | None) -> Tensor:
    """Return the floats that integers mean; scale and zero point broadcast."""
    return centred(x, zero).to(torch.float32) * scale


def quantized(x: Tensor, scale: Tensor, zero: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Divide, round halves to even, add the zero point, saturate."""
    limits = torch.iinfo(dtype)
    q = torch.round(x / scale)
    q = q if zero is None else q + typed(zero, q.dtype)
    return q.clamp(limits.min, limits.max).to(dtype)


def quantized_dynamically(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the bytes of ``x``, which reach from its least number to its most, scale and zero."""
    low, high = x.amin().clamp(max=0), x.amax().clamp(min=0)
    scale = (high - low) / 255
    safe = torch.where(scale == 0, torch.ones_like(scale), scale)
    zero = torch.round((-low / safe).clamp(0, 255)).to(torch.uint8)
    return quantized(x, safe, zero, torch.uint8), scale, zero


def rounded_dynamically(x: Tensor) -> Tensor:
    """Return what the bytes of ``x`` mean, with the scale that ``x`` itself has."""
    return meant(*quantized_dynamically(x))
