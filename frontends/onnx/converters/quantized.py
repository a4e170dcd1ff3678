"""Quantized numbers: integers with a scale and a zero point."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tvm_sparse.frontends.converters.affine_bytes import (
    centred,
    meant,
    quantized,
    quantized_dynamically,
    typed,
)
from tvm_sparse.frontends.onnx.converters.convolutions import convolution
from tvm_sparse.frontends.onnx.converters.windows import ATTRIBUTES
from tvm_sparse.frontends.onnx.node import Node
from tvm_sparse.frontends.onnx.registry import converter
from tvm_sparse.frontends.onnx.types import dtype_of


def _placed(x: Tensor, parameter: Tensor, axis: int, block_size: int) -> Tensor:
    """Return a scale or zero point so that it broadcasts: whole, by axis, or by blocks of it."""
    if parameter.numel() == 1 and not block_size:
        return parameter.reshape(()) if parameter.dim() else parameter
    axis %= x.dim()
    if block_size:
        repeated = parameter.repeat_interleave(block_size, axis)
        return repeated.narrow(axis, 0, x.shape[axis])
    return parameter.reshape([-1 if i == axis else 1 for i in range(x.dim())])


@converter("QuantizeLinear", since=10)
def quantize(
    x: Tensor,
    scale: Tensor,
    zero: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
    node: Node,
) -> Tensor:
    """``saturate`` concerns floats of 8 bits, which are refused."""
    dtype = torch.uint8 if zero is None else zero.dtype
    if output_dtype:
        dtype = dtype_of(output_dtype, node.place)
    if dtype.is_floating_point:
        raise node.unsound(f"quantizes to {dtype}", "integers")
    divided = dtype_of(precision, node.place) if precision else scale.dtype
    x = typed(x, divided if x.is_floating_point() else torch.float32)
    scale = typed(_placed(x, scale, axis, block_size), x.dtype)
    zero = None if zero is None else _placed(x, zero, axis, block_size)
    return quantized(x, scale, zero, dtype)


@converter("DequantizeLinear", since=10)
def dequantize(
    x: Tensor,
    scale: Tensor,
    zero: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    node: Node,
) -> Tensor:
    """Return what integers mean, by one scale, by those of an axis or of blocks along it."""
    dtype = dtype_of(output_dtype, node.place) if output_dtype else scale.dtype
    placed = typed(_placed(x, scale, axis, block_size), torch.float32)
    zero = None if zero is None else _placed(x, zero, axis, block_size)
    return typed(meant(x, placed, zero), dtype)


converter("DynamicQuantizeLinear")(quantized_dynamically)


def _by_rows(parameter: Tensor | None, rank: int) -> Tensor | None:
    """Return the parameter of the left operand's rows, or the whole one."""
    if parameter is None or parameter.dim() != 1 or parameter.numel() == 1:
        return parameter if parameter is None or parameter.dim() > 1 else parameter.reshape(())
    return parameter.reshape(*[1] * (rank - 2), -1, 1)


@converter("MatMulInteger")
def _multiply(
    a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None
) -> Tensor:
    return torch.matmul(centred(a, _by_rows(a_zero, a.dim())), centred(b, b_zero))


@converter("QLinearMatMul", since=10)
def _quantized_product(  # noqa: PLR0917 (as many as the operator has)
    a: Tensor,
    a_scale: Tensor,
    a_zero: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
) -> Tensor:
    product = _multiply(a, b, a_zero, b_zero).to(torch.float32)
    rows, whole = _by_rows(a_scale, a.dim()), _by_rows(y_scale, a.dim())
    assert rows is not None and whole is not None
    scale = rows.float() * b_scale.float() / whole.float()
    y = torch.round(product * scale)
    zero = _by_rows(y_zero, a.dim())
    limits = torch.iinfo(y_zero.dtype)
    assert zero is not None
    return (y + zero.to(y.dtype)).clamp(limits.min, limits.max).to(y_zero.dtype)


@converter("ConvInteger", reads=ATTRIBUTES)
def _convolve(
    x: Tensor,
    weight: Tensor,
    x_zero: Tensor | None = None,
    weight_zero: Tensor | None = None,
    *,
    kernel_shape: Sequence[int] | None = None,
    group: int = 1,
    node: Node,
) -> Tensor:
    """Convolve centred integers, where the padding is zero as well."""
    if weight_zero is not None and weight_zero.numel() > 1:
        weight_zero = weight_zero.reshape(-1, *[1] * (weight.dim() - 1))
    return convolution(
        centred(x, x_zero),
        centred(weight, weight_zero),
        kernel_shape=kernel_shape,
        group=group,
        node=node,
    )


@converter("QLinearConv", reads=ATTRIBUTES)
def quantized_convolution(  # noqa: PLR0917 (as many as the operator has)
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    weight: Tensor,
    weight_scale: Tensor,
    weight_zero: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
    bias: Tensor | None = None,
    *,
    kernel_shape: Sequence[int] | None = None,
    group: int = 1,
    node: Node,
) -> Tensor:
    """Convolve integers exactly; multiply once by all scales, round and saturate."""
    sums = _convolve(
        x, weight, x_zero, weight_zero, kernel_shape=kernel_shape, group=group, node=node
    )
    shape = [1, -1, *[1] * (x.dim() - 2)]  # all axes: the layout of the sums passes through
    if bias is not None:
        sums = sums + bias.reshape(shape)
    scale = (x_scale * weight_scale / y_scale).reshape(-1)
    y = torch.round(sums.to(torch.float32) * scale.reshape(shape))
    limits = torch.iinfo(y_zero.dtype)
    return (y + y_zero.to(y.dtype)).clamp(limits.min, limits.max).to(y_zero.dtype)
