"""Element types."""

from __future__ import annotations

import torch
from torch import Tensor

from tvm_sparse.frontends.onnx.node import Node
from tvm_sparse.frontends.onnx.registry import converter
from tvm_sparse.frontends.onnx.types import dtype_of


@converter("Cast", since=6)
def _cast(x: Tensor, *, to: int, saturate: int = 1, round_mode: str = "up", node: Node) -> Tensor:
    """``saturate`` and ``round_mode`` concern the types of 8 bits, which are refused."""
    return x.to(dtype_of(to, node.place))


@converter("CastLike")
def _cast_like(x: Tensor, other: Tensor, *, saturate: int = 1, round_mode: str = "up") -> Tensor:
    return x.to(other.dtype)


@converter("BitCast")
def _bit_cast(x: Tensor, *, to: int, node: Node) -> Tensor:
    return x.view(dtype_of(to, node.place))


@converter("Where")
def _where(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return torch.where(condition, x, y)


@converter("Dropout")
def _dropout_attributes(x: Tensor, *, ratio: float = 0.5) -> tuple[Tensor, Tensor]:
    return x, torch.ones_like(x, dtype=torch.bool)


@converter("Dropout", since=12, static=["training_mode"])
def _dropout(
    x: Tensor,
    ratio: Tensor | None = None,
    training_mode: object = None,
    *,
    seed: int = 0,
    node: Node,
) -> tuple[Tensor, Tensor]:
    if training_mode is not None and bool(training_mode):
        raise node.refuse("drops at random (training_mode)", "inference", "export for inference")
    return x, torch.ones_like(x, dtype=torch.bool)
