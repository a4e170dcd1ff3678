"""Activations, some of them with what is added before."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from tvm_sparse.frontends.onnx.converters.microsoft import DOMAIN
from tvm_sparse.frontends.onnx.registry import converter


@converter("Gelu", domain=DOMAIN)
def _gelu(x: Tensor) -> Tensor:
    return F.gelu(x)


@converter("BiasGelu", domain=DOMAIN)
def _gelu_of_sum(x: Tensor, bias: Tensor) -> Tensor:
    return F.gelu(x + bias)


@converter("FastGelu", domain=DOMAIN)
def _gelu_by_tanh(x: Tensor, bias: Tensor | None = None) -> Tensor:
    return F.gelu(x if bias is None else x + bias, approximate="tanh")


@converter("QuickGelu", domain=DOMAIN)
def _gelu_by_sigmoid(x: Tensor, *, alpha: float = 1.702) -> Tensor:
    return x * torch.sigmoid(alpha * x)


@converter("BiasSplitGelu", domain=DOMAIN)
def _gated(x: Tensor, bias: Tensor) -> Tensor:
    """Multiply the first half by the activated second one."""
    value, gate = (x + bias).chunk(2, -1)
    return value * F.gelu(gate)


@converter("BiasAdd", domain=DOMAIN)
def _sum(x: Tensor, bias: Tensor, skip: Tensor) -> Tensor:
    return x + bias + skip
