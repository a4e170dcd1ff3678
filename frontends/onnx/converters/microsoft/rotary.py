"""Rotary embeddings of places: pairs of elements are turned by an angle of their place."""

from __future__ import annotations

import torch
from torch import Tensor

from tvm_sparse.frontends.onnx.converters.indexing import gather
from tvm_sparse.frontends.onnx.converters.microsoft import DOMAIN
from tvm_sparse.frontends.onnx.node import Node
from tvm_sparse.frontends.onnx.registry import converter


@converter("RotaryEmbedding", domain=DOMAIN)
def _rotary(
    x: Tensor,
    places: Tensor,
    cosines: Tensor,
    sines: Tensor,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    is_packed_batching: int = 0,
    scale: float = 1.0,
    node: Node,
) -> Tensor:
    """Turn (batch, length, hidden) or (batch, heads, length, size) by places of each token.

    One place alone is that of the first token of every sequence.
    """
    if is_packed_batching or scale != 1:
        raise node.refuse("packs its batch or scales its angles", "neither")
    width = 2 * cosines.shape[1]
    split = x.dim() == 3
    if split:
        size = x.shape[2] // num_heads if num_heads else width
        x = x.reshape(*x.shape[:2], x.shape[2] // size, size).transpose(1, 2)
    if places.numel() == 1:
        places = places.reshape(1, 1) + torch.arange(x.shape[2])[None]
    turned, rest = x[..., :width], x[..., width:]
    cos, sin = (gather(table, places)[:, None] for table in (cosines, sines))
    if interleaved == 1:  # other numbers mean no, to onnxruntime
        a, b = turned[..., 0::2], turned[..., 1::2]
        turned = torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)
    else:
        a, b = turned.chunk(2, -1)
        turned = torch.cat([a * cos - b * sin, a * sin + b * cos], -1)
    y = torch.cat([turned, rest], -1) if rest.shape[-1] else turned
    return y.transpose(1, 2).flatten(2) if split else y
