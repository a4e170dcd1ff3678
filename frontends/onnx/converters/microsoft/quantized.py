"""Operators of onnxruntime's domain that quantized files of the format QOperator have."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from tvm_sparse.frontends.converters.affine_bytes import centred, meant, quantized
from tvm_sparse.frontends.onnx.converters.activations import of_matrix, softmax
from tvm_sparse.frontends.onnx.converters.microsoft import DOMAIN
from tvm_sparse.frontends.onnx.converters.pooling import WINDOWS, average_pool
from tvm_sparse.frontends.onnx.node import Node
from tvm_sparse.frontends.onnx.registry import converter


def _meant(x: Tensor, scale: Tensor, zero: Tensor | None) -> Tensor:
    return meant(x, scale.reshape(()), zero)


def _stored(y: Tensor, scale: Tensor, zero: Tensor | None, like: Tensor) -> Tensor:
    """Return ``y`` as bytes, of the type of ``like`` where no zero point says another."""
    dtype = like.dtype if zero is None else zero.dtype
    return quantized(y, scale.reshape(()), None if zero is None else zero.reshape(()), dtype)


def _of_two(combine: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """Return the converter of an operator on two tensors, each with what its bytes mean."""

    def convert(  # noqa: PLR0917 (as many as the operators have)
        a: Tensor,
        a_scale: Tensor,
        a_zero: Tensor | None,
        b: Tensor,
        b_scale: Tensor,
        b_zero: Tensor | None,
        y_scale: Tensor,
        y_zero: Tensor | None = None,
    ) -> Tensor:
        y = combine(_meant(a, a_scale, a_zero), _meant(b, b_scale, b_zero))
        return _stored(y, y_scale, y_zero, a)

    return convert


converter("QLinearAdd", domain=DOMAIN)(_of_two(torch.add))
converter("QLinearMul", domain=DOMAIN)(_of_two(torch.mul))


@converter("QLinearGlobalAveragePool", domain=DOMAIN)
def _average(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor | None,
    y_scale: Tensor,
    y_zero: Tensor | None = None,
    *,
    channels_last: int = 0,
) -> Tensor:
    axes = [*range(1, x.dim() - 1)] if channels_last else [*range(2, x.dim())]
    y = _meant(x, x_scale, x_zero).mean(axes, keepdim=True)
    return _stored(y, y_scale, y_zero, x)


@converter("QLinearAveragePool", domain=DOMAIN, reads=WINDOWS)
def _average_of_windows(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor | None,
    y_scale: Tensor,
    y_zero: Tensor | None = None,
    *,
    kernel_shape: Sequence[int],
    count_include_pad: int = 0,
    channels_last: int = 0,
    node: Node,
) -> Tensor:
    means = _meant(x, x_scale, x_zero)
    means = means.movedim(-1, 1) if channels_last else means
    y = average_pool(
        means, kernel_shape=kernel_shape, count_include_pad=count_include_pad, node=node
    )
    return _stored(y.movedim(1, -1) if channels_last else y, y_scale, y_zero, x)


@converter("QLinearSoftmax", domain=DOMAIN)
def _softmax(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor | None,
    y_scale: Tensor,
    y_zero: Tensor | None = None,
    *,
    axis: int = -1,
    opset: int,
) -> Tensor:
    """Do what ``Softmax`` does in version ``opset``: before 13 over all axes from ``axis`` on."""
    means = _meant(x, x_scale, x_zero)
    y = of_matrix(softmax, means, axis) if opset < 13 else softmax(means, axis=axis)
    return _stored(y, y_scale, y_zero, x)


@converter("QLinearWhere", domain=DOMAIN)
def _where(  # noqa: PLR0917 (as many as the operator has)
    condition: Tensor,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor | None,
    y: Tensor,
    y_scale: Tensor,
    y_zero: Tensor | None,
    z_scale: Tensor,
    z_zero: Tensor | None = None,
) -> Tensor:
    z = torch.where(condition, _meant(x, x_scale, x_zero), _meant(y, y_scale, y_zero))
    return _stored(z, z_scale, z_zero, x)


@converter("QLinearSigmoid", domain=DOMAIN)
def _sigmoid(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor | None,
    y_scale: Tensor,
    y_zero: Tensor | None = None,
) -> Tensor:
    return _stored(torch.sigmoid(_meant(x, x_scale, x_zero)), y_scale, y_zero, x)


@converter("QLinearLeakyRelu", domain=DOMAIN)
def _leaky(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor | None,
    y_scale: Tensor,
    y_zero: Tensor | None = None,
    *,
    alpha: float = 0.01,
) -> Tensor:
    y = torch.nn.functional.leaky_relu(_meant(x, x_scale, x_zero), alpha)
    return _stored(y, y_scale, y_zero, x)


@converter("QLinearConcat", domain=DOMAIN)
def _concatenate(
    y_scale: Tensor, y_zero: Tensor | None, *pieces: Tensor, axis: int, node: Node
) -> Tensor:
    if len(pieces) % 3:
        raise node.unsound(f"{len(pieces)} inputs behind the scale", "three a tensor")
    triples = zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True)
    y = torch.cat([_meant(*triple) for triple in triples], axis)
    return _stored(y, y_scale, y_zero, pieces[0])


@converter("QGemm", domain=DOMAIN)
def _general(  # noqa: PLR0917 (as many as the operator has)
    a: Tensor,
    a_scale: Tensor,
    a_zero: Tensor | None,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Tensor | None,
    c: Tensor | None = None,
    y_scale: Tensor | None = None,
    y_zero: Tensor | None = None,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    """Multiply integers, to which ``c`` is added as it is; without ``y_scale``, return floats.

    Sums are multiplied once, by the product of all scales, as onnxruntime does.
    """
    left = centred(a, a_zero)
    sums = torch.matmul(left.t() if transA else left, _columns(b, b_zero, transB))
    sums = sums if c is None else sums + c
    y, scale = sums.to(torch.float32), alpha * a_scale.reshape(()) * b_scale.reshape(-1)
    if y_scale is None:
        return y * scale
    return _stored(y * (scale / y_scale.reshape(())), torch.ones_like(y_scale), y_zero, a)


def _columns(b: Tensor, zero: Tensor | None, transposed: int) -> Tensor:
    """Return the right operand, a zero point for each of whose columns is subtracted."""
    return centred(b.t() if transposed else b, None if zero is None else zero.reshape(-1))
