"""Matrix products."""

from __future__ import annotations

import torch
from torch import Tensor

from tvm_sparse.frontends.onnx.registry import converter


@converter("MatMul")
def _multiply(a: Tensor, b: Tensor) -> Tensor:
    return torch.matmul(a, b)


@converter("Gemm")
def general_product(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    """Multiply, as a linear layer where nothing is scaled."""
    weight = b if transB else b.t()
    rows = a.t() if transA else a
    if alpha == 1 and beta == 1 and c is not None and c.shape == weight.shape[:1]:
        return torch.nn.functional.linear(rows, weight, c)
    result = torch.nn.functional.linear(rows, weight)
    result = result if alpha == 1 else result * alpha
    if c is None:
        return result
    return result + (c if beta == 1 else c * beta)


@converter("Einsum")
def _einsum(*operands: Tensor, equation: str) -> Tensor:
    return torch.einsum(equation.replace(" ", ""), *operands)
