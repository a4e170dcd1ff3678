"""Scales and zero points that PyTorch's export flow chooses from the data themselves."""

from __future__ import annotations

import torch
from torch import Tensor

from tvm_sparse.frontends.decompositions.quantized import quantized
from tvm_sparse.frontends.decompositions.table import rule

Parameters = tuple[Tensor, Tensor]
"""Scale in double precision, and zero point."""


@rule(quantized.choose_qparams_per_token.default)
def _by_token(x: Tensor, dtype: torch.dtype) -> Parameters:
    """Choose for each row; PyTorch itself refuses any type but int8."""
    largest = x.float().abs().amax(-1, keepdim=True)
    return _without_zero_point(largest.clamp(min=1e-5) / torch.iinfo(dtype).max)


@rule(
    quantized.choose_qparams_per_token_asymmetric.default,
    quantized._choose_qparams_per_token_asymmetric_impl.default,
)
def _by_token_with_zero_point(x: Tensor, dtype: torch.dtype) -> Parameters:
    limits, x = torch.iinfo(torch.int8), x.float()
    low = x.amin(-1, keepdim=True).clamp(max=0)
    high = x.amax(-1, keepdim=True).clamp(min=0)
    scale = ((high - low) / (limits.max - limits.min)).clamp(min=torch.finfo(torch.float32).eps)
    below, above = low / scale, high / scale
    upper_errs = (limits.min + below) + (limits.max + above) > 0
    zero = torch.where(upper_errs, limits.min - below, limits.max - above)
    zero = zero.clamp(limits.min, limits.max).round()
    return scale.double(), zero.long()


@rule(quantized.choose_qparams.tensor)
def _by_tensor(x: Tensor, least: int, most: int, eps: float, dtype: torch.dtype) -> Parameters:
    low, high = x.float().amin().clamp(max=0), x.float().amax().clamp(min=0)
    scale = ((high - low) / (most - least)).clamp(min=eps)
    zero = (least - torch.round(low / scale)).clamp(least, most)
    return scale.double().reshape(1), zero.long().reshape(1)


@rule(quantized.choose_qparams_symmetric.tensor)
def _by_tensor_around_zero(
    x: Tensor, least: int, most: int, eps: float, dtype: torch.dtype
) -> Parameters:
    scale = (x.float().abs().amax() / ((most - least) / 2)).clamp(min=eps)
    scales, zeros = _without_zero_point(scale.reshape(1))
    return scales, zeros + (128 if dtype == torch.uint8 else 0)


def _without_zero_point(scales: Tensor) -> Parameters:
    return scales.double(), torch.zeros_like(scales, dtype=torch.int64)
