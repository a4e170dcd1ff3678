"""Activations."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from tvm_sparse.frontends.onnx.node import Node
from tvm_sparse.frontends.onnx.registry import converter


@converter("Relu")
def _relu(x: Tensor) -> Tensor:
    return F.relu(x)


@converter("LeakyRelu")
def _leaky_relu(x: Tensor, *, alpha: float = 0.01) -> Tensor:
    return F.leaky_relu(x, alpha)


@converter("ThresholdedRelu")
def _thresholded_relu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return torch.where(x > alpha, x, torch.zeros_like(x))


@converter("PRelu")
def _prelu(x: Tensor, slope: Tensor) -> Tensor:
    return torch.where(x < 0, x * slope, x)


@converter("Elu")
def _elu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return F.elu(x, alpha)


@converter("Selu")
def _selu(
    x: Tensor, *, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805
) -> Tensor:
    return torch.where(x > 0, gamma * x, gamma * alpha * torch.expm1(x.clamp(max=0)))


@converter("Celu")
def _celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return x.clamp(min=0) + alpha * torch.expm1(x.clamp(max=0) / alpha)


@converter("Gelu")
def _gelu(x: Tensor, *, approximate: str = "none", node: Node) -> Tensor:
    if approximate not in ("none", "tanh"):
        raise node.unsound(f"approximate '{approximate}'", "none or tanh")
    return F.gelu(x, approximate=approximate)


@converter("HardSigmoid")
def _hard_sigmoid(x: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    return (alpha * x + beta).clamp(0, 1)


@converter("HardSwish")
def _hard_swish(x: Tensor) -> Tensor:
    return F.hardswish(x)


@converter("Mish")
def _mish(x: Tensor) -> Tensor:
    return x * torch.tanh(_softplus(x))


@converter("Swish")
def _swish(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return F.silu(x) if alpha == 1 else x * torch.sigmoid(alpha * x)


@converter("Softplus")
def _softplus(x: Tensor) -> Tensor:
    """Written so that large arguments do not overflow."""
    return x.clamp(min=0) + torch.log1p(torch.exp(-x.abs()))


@converter("Softsign")
def _softsign(x: Tensor) -> Tensor:
    return x / (1 + x.abs())


@converter("Shrink")
def _shrink(x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    zero = torch.zeros_like(x)
    return torch.where(x < -lambd, x + bias, torch.where(x > lambd, x - bias, zero))


@converter("Softmax", since=13)
def softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """Return the softmax along ``axis``."""
    return torch.softmax(x, axis)


@converter("LogSoftmax", since=13)
def _log_softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    return torch.log_softmax(x, axis)


@converter("Hardmax", since=13)
def _hardmax(x: Tensor, *, axis: int = -1) -> Tensor:
    axis %= x.dim()
    first = torch.argmax(x, axis, keepdim=True)
    shape = [-1 if i == axis else 1 for i in range(x.dim())]
    places = torch.arange(x.shape[axis], device=x.device).reshape(shape)
    return (places == first).to(x.dtype)


def of_matrix(function: Callable[..., Tensor], x: Tensor, axis: int) -> Tensor:
    """Apply ``function`` to the rows of a matrix: axes of ``x`` before ``axis``, and from it on.

    That is what softmax and the like did before version 13.
    """
    axis %= x.dim()
    matrix = x.flatten(axis) if axis < x.dim() else x.unsqueeze(-1)
    return function(matrix, axis=-1).reshape(x.shape)


def _flattened(name: str, function: Callable[..., Tensor]) -> None:
    @converter(name)
    def flat(x: Tensor, *, axis: int = 1) -> Tensor:
        return of_matrix(function, x, axis)


_flattened("Softmax", softmax)
_flattened("LogSoftmax", _log_softmax)
_flattened("Hardmax", _hardmax)
