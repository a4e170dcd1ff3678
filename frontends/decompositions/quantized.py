"""Quantized tensors of PyTorch's export flow (PT2E): integers with scales and zero points."""

from __future__ import annotations

from typing import Any

import torch
import torch.ao.quantization.fx._decomposed
from torch import Tensor

from tvm_sparse.frontends.decompositions.table import aten, rule

quantized = torch.ops.quantized_decomposed


@rule(quantized.quantize_per_tensor.default)
def _quantize(x: Tensor, scale: float, zero: int, *limits: Any) -> Tensor:
    return _rounded(x.float() * (1.0 / scale), float(zero), *limits)


@rule(quantized.quantize_per_tensor.tensor)
def _quantize_by_tensors(x: Tensor, scale: Tensor, zero: Tensor, *limits: Any) -> Tensor:
    steps = x.float() * (1.0 / scale.reshape(())).float()
    return _rounded(steps, zero.reshape(()).float(), *limits)


@rule(quantized.quantize_per_channel.default)
def _quantize_by_channel(
    x: Tensor, scales: Tensor, zeros: Tensor, axis: int, *limits: Any
) -> Tensor:
    steps = x.float() * (1.0 / _along(scales, x, axis)).float()
    return _rounded(steps, _along(zeros, x, axis).float(), *limits)


@rule(quantized.quantize_per_token.default)
def _quantize_by_token(x: Tensor, scales: Tensor, zeros: Tensor, *limits: Any) -> Tensor:
    """Add the zero point before rounding, other than by tensor."""
    steps = x.float() * (1.0 / _by_row(scales, x)).float() + _by_row(zeros, x).float()
    return _rounded(steps, 0.0, *limits)


def _rounded(steps: Tensor, zero: Any, least: int, most: int, dtype: torch.dtype) -> Tensor:
    return (torch.round(steps) + zero).clamp(least, most).to(dtype)


@rule(quantized.dequantize_per_tensor.default)
def _dequantize(
    x: Tensor, scale: float, zero: int, *_: Any, out_dtype: torch.dtype | None = None
) -> Tensor:
    return _meant(x, scale, zero, out_dtype)


@rule(quantized.dequantize_per_tensor.tensor)
def _dequantize_by_tensors(
    x: Tensor, scale: Tensor, zero: Tensor, *_: Any, out_dtype: torch.dtype | None = None
) -> Tensor:
    return _meant(x, scale.reshape(()).float(), zero.reshape(()), out_dtype)


@rule(quantized.dequantize_per_channel.default)
def _dequantize_by_channel(
    x: Tensor,
    scales: Tensor,
    zeros: Tensor | None,
    axis: int,
    *_: Any,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    zero = 0 if zeros is None else _along(zeros, x, axis)
    return _meant(x, _along(scales, x, axis).float(), zero, out_dtype)


@rule(quantized.dequantize_per_token.default)
def _dequantize_by_token(
    x: Tensor, scales: Tensor, zeros: Tensor, *limits: Any, output_dtype: Any = None
) -> Tensor:
    dtype = limits[3] if len(limits) > 3 else output_dtype
    return _meant(x, _by_row(scales, x).float(), _by_row(zeros, x), dtype)


def _meant(x: Tensor, scale: Any, zero: Any, out_dtype: torch.dtype | None) -> Tensor:
    zero = zero.to(torch.int32) if isinstance(zero, Tensor) else zero
    return ((x.to(torch.int32) - zero).float() * scale).to(out_dtype or torch.float32)


def _along(parameter: Tensor, x: Tensor, axis: int) -> Tensor:
    """Return a number for each place along ``axis`` of ``x`` so that it broadcasts."""
    return parameter.reshape([-1 if i == axis % x.dim() else 1 for i in range(x.dim())])


def _by_row(parameter: Tensor, x: Tensor) -> Tensor:
    return parameter.reshape([*x.shape[:-1], 1])


@rule(aten._int_mm.default)
def _product_of_bytes(x: Tensor, other: Tensor) -> Tensor:
    return torch.mm(x.to(torch.int32), other.to(torch.int32))
