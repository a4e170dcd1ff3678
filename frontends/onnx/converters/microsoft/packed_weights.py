"""Products with weights of 2, 4 or 8 bits, packed into bytes with a scale for each block."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from tvm_sparse.frontends.onnx.converters.microsoft import DOMAIN
from tvm_sparse.frontends.onnx.node import Node
from tvm_sparse.frontends.onnx.registry import converter

_WIDTHS = (2, 4, 8)


@converter("MatMulNBits", domain=DOMAIN, reads=["accuracy_level"])
def _product(  # noqa: PLR0917 (as many as the operator has)
    x: Tensor,
    packed: Tensor,
    scales: Tensor,
    zeros: Tensor | None = None,
    order: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    K: int,
    N: int,
    bits: int = 4,
    block_size: int,
    weight_prepacked: int = 0,
    node: Node,
) -> Tensor:
    """Multiply by the unpacked weight; ``accuracy_level`` allows to round ``x``, which is not done.

    Without zero points the middle of the range means zero.
    """
    if bits not in _WIDTHS:
        raise node.refuse(f"weights of {bits} bits", ", ".join(map(str, _WIDTHS)))
    if order is not None or weight_prepacked:
        raise node.refuse("its weight is reordered", "columns in order", "leave g_idx out")
    blocks = -(-K // block_size)
    if packed.numel() != N * blocks * (block_size * bits // 8):
        wanted = f"{[N, blocks, block_size * bits // 8]}"
        raise node.unsound(f"packed weights of shape {list(packed.shape)}", wanted)
    numbers = _unpacked(packed.reshape(N, -1), bits).reshape(N, blocks, block_size)
    centre: Tensor | float = float(1 << (bits - 1))
    if zeros is not None and zeros.dtype == torch.uint8:
        centre = _unpacked(zeros.reshape(N, -1), bits)[:, :blocks, None].to(scales.dtype)
    elif zeros is not None:
        centre = zeros.reshape(N, blocks, 1)
    weight = (numbers.to(scales.dtype) - centre) * scales.reshape(N, blocks, 1)
    return F.linear(x, weight.reshape(N, -1)[:, :K], bias)


def _unpacked(rows: Tensor, bits: int) -> Tensor:
    """Return the numbers in rows of bytes, those of the lowest bits first.

    Floats are divided and rounded to what is next below, which is exact, and folded when constant.
    """
    rest, base, numbers = rows.to(torch.float32), float(1 << bits), []
    for _ in range(8 // bits):
        higher = torch.round((rest - (base - 1) / 2) / base)
        numbers.append(rest - higher * base)
        rest = higher
    return torch.stack(numbers, -1).flatten(-2)
