"""Whole layers of transformers, which PyTorch's modules call in inference, as what they compute."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tvm_sparse.frontends.decompositions.table import aten, rule

_KEYS = 1
"""The type of a mask that tells of each key of a sequence whether it is left out."""


@rule(aten._native_multi_head_attention.default)
def _attention(  # noqa: PLR0917 (the operator's own signature)
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average: bool = True,
    mask_type: int | None = None,
) -> Any:
    if query is key and key is value:
        parts = F.linear(query, qkv_weight, qkv_bias).chunk(3, -1)
    else:
        given = zip((query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3), strict=True)
        parts = tuple(F.linear(x, weight, bias) for x, weight, bias in given)
    q, k, v = (x.unflatten(-1, (heads, embed_dim // heads)).transpose(1, 2) for x in parts)
    scores = (q / math.sqrt(embed_dim // heads)) @ k.transpose(-2, -1)
    if mask is not None:
        scores = scores.masked_fill(_broadcast(mask.to(torch.bool), mask_type, heads), -math.inf)
    weights = torch.softmax(scores, -1)
    found = F.linear((weights @ v).transpose(1, 2).flatten(2), proj_weight, proj_bias)
    if not need_weights:
        return found, query.new_zeros(0)
    return found, weights.mean(1) if average else weights


def _broadcast(mask: Tensor, mask_type: int | None, heads: int) -> Tensor:
    """Return ``mask`` with axes for batch, heads, queries and keys; True leaves out."""
    if mask_type == _KEYS:
        return mask[:, None, None, :]
    return mask.unflatten(0, (-1, heads)) if mask.dim() == 3 else mask


@rule(aten._transformer_encoder_layer_fwd.default)
def _encoder_layer(  # noqa: PLR0917 (the operator's own signature)
    src: Tensor,
    embed_dim: int,
    heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Any:
    def norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return F.layer_norm(x, (embed_dim,), weight, bias, eps)

    def attend(x: Tensor) -> Tensor:
        weights = (qkv_weight, qkv_bias, proj_weight, proj_bias)
        found: Tensor = _attention(
            x, x, x, embed_dim, heads, *weights, mask, need_weights=False, mask_type=mask_type
        )[0]
        return found

    def forward(x: Tensor) -> Tensor:
        activation = F.gelu if use_gelu else F.relu
        return F.linear(activation(F.linear(x, ffn_weight_1, ffn_bias_1)), ffn_weight_2, ffn_bias_2)

    if src.is_nested:
        return NotImplemented
    first, second = (norm_weight_1, norm_bias_1), (norm_weight_2, norm_bias_2)
    if norm_first:
        src = src + attend(norm(src, *first))
        return src + forward(norm(src, *second))
    src = norm(src + attend(src), *first)
    return norm(src + forward(src), *second)
