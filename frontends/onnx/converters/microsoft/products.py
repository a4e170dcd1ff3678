"""Matrix products and convolutions with what the optimiser fused into them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tvm_sparse.frontends.onnx.converters.convolutions import convolution
from tvm_sparse.frontends.onnx.converters.microsoft import DOMAIN
from tvm_sparse.frontends.onnx.converters.products import general_product
from tvm_sparse.frontends.onnx.converters.windows import ATTRIBUTES
from tvm_sparse.frontends.onnx.node import Node
from tvm_sparse.frontends.onnx.registry import converter, find

_ACTIVATIONS: dict[str, tuple[str, ...]] = {
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
    "Softplus": (),
    "Softsign": (),
    "Elu": ("alpha",),
    "LeakyRelu": ("alpha",),
    "ThresholdedRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "Selu": ("alpha", "gamma"),
    "Clip": ("min", "max"),
}
"""Activations that are fused, and their parameters in order."""

_BEFORE_CLIP_HAD_INPUTS = 6


def _activated(node: Node, y: Tensor, name: str, given: dict[str, float]) -> Tensor:
    """Apply the activation ``name`` of ONNX; what is not given is the operator's own default."""
    if not name:
        return y
    if name not in _ACTIVATIONS:
        raise node.refuse(f"activation '{name}'", ", ".join(_ACTIVATIONS))
    found = find(name, "", _BEFORE_CLIP_HAD_INPUTS)
    assert found is not None
    return found.function(y, **{key: given[key] for key in _ACTIVATIONS[name] if key in given})


@converter("FusedGemm", domain=DOMAIN)
def _fused_general_product(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    activation: str = "",
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
    node: Node,
) -> Tensor:
    y = general_product(a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)
    parts = {"alpha": activation_alpha, "beta": activation_beta, "gamma": activation_gamma}
    given = {key: value for key, value in parts.items() if value is not None}
    return _activated(node, y, activation, given)


@converter("FusedConv", domain=DOMAIN, reads=ATTRIBUTES)
def _fused_convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    addend: Tensor | None = None,
    *,
    kernel_shape: Sequence[int] | None = None,
    group: int = 1,
    activation: str = "",
    activation_params: Sequence[float] = (),
    node: Node,
) -> Tensor:
    """Convolve, add, activate."""
    y = convolution(x, weight, bias, kernel_shape=kernel_shape, group=group, node=node)
    y = y if addend is None else y + addend
    names = _ACTIVATIONS.get(activation, ())
    if len(activation_params) > len(names):
        raise node.unsound(f"{len(activation_params)} activation_params", f"{len(names)} or fewer")
    return _activated(node, y, activation, dict(zip(names, activation_params, strict=False)))


@converter("FusedMatMul", "TransposeMatMul", domain=DOMAIN)
def _scaled_product(
    a: Tensor,
    b: Tensor,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Tensor:
    y = torch.matmul(_turned(a, transA, transBatchA), _turned(b, transB, transBatchB))
    return y if alpha == 1 else y * alpha


def _turned(x: Tensor, matrix: int, batch: int) -> Tensor:
    """Turn the two last axes; with ``batch`` the rows are the first axis, before those of batches.

    One axis alone is a vector, which has no other side.
    """
    if batch and x.dim() > 2:
        x = x.movedim(0, -2)
    return x.transpose(-1, -2) if matrix and x.dim() > 1 else x
