"""Products of bytes that the optimiser fused with the scales around them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tvm_sparse.frontends.converters.affine_bytes import centred, quantized_dynamically
from tvm_sparse.frontends.onnx.converters.microsoft import DOMAIN
from tvm_sparse.frontends.onnx.converters.pooling import WINDOWS, max_pool
from tvm_sparse.frontends.onnx.converters.quantized import (
    dequantize,
    quantize,
    quantized_convolution,
)
from tvm_sparse.frontends.onnx.converters.windows import ATTRIBUTES
from tvm_sparse.frontends.onnx.node import Node
from tvm_sparse.frontends.onnx.registry import converter

converter("QuantizeLinear", domain=DOMAIN)(quantize)
converter("DequantizeLinear", domain=DOMAIN)(dequantize)


@converter("MatMulIntegerToFloat", domain=DOMAIN)
def _product(  # noqa: PLR0917 (as many as the operator has)
    a: Tensor,
    b: Tensor,
    a_scale: Tensor,
    b_scale: Tensor,
    a_zero: Tensor | None = None,
    b_zero: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    node: Node,
) -> Tensor:
    """Multiply integers, then once by the product of all scales; add the bias."""
    if any(x is not None and x.numel() != 1 for x in (a_scale, a_zero)):
        raise node.refuse("the left operand has several scales", "one")
    zero = None if a_zero is None else a_zero.reshape(())
    sums = torch.matmul(centred(a, zero), centred(b, b_zero))
    y = sums.to(torch.float32) * (a_scale.reshape(()) * b_scale)
    return y.to(a_scale.dtype) if bias is None else (y + bias).to(a_scale.dtype)


@converter("DynamicQuantizeMatMul", domain=DOMAIN)
def _product_of_floats(
    a: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    node: Node,
) -> Tensor:
    """Round the left operand to bytes of its own range first."""
    rows, scale, zero = quantized_dynamically(a)
    return _product(rows, b, scale, b_scale, zero, b_zero, bias, node=node)


@converter("QLinearConv", domain=DOMAIN, reads=ATTRIBUTES)
def _convolution(  # noqa: PLR0917 (as many as the operator has)
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
    channels_last: int = 0,
    node: Node,
) -> Tensor:
    """Convolve as ONNX's operator does; activations, not weights, may have channels last."""
    x = x.movedim(-1, 1) if channels_last else x
    scales = (x_scale, x_zero, weight, weight_scale, weight_zero, y_scale, y_zero, bias)
    y = quantized_convolution(x, *scales, kernel_shape=kernel_shape, group=group, node=node)
    return y.movedim(1, -1) if channels_last else y


@converter("NhwcMaxPool", domain=DOMAIN, reads=WINDOWS)
def _largest(x: Tensor, *, kernel_shape: Sequence[int], node: Node) -> Tensor:
    return max_pool(x.movedim(-1, 1), kernel_shape=kernel_shape, node=node).movedim(1, -1)
