"""Attention as products and a softmax."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tvm_sparse.frontends.decompositions.table import aten, rule


@rule(aten.scaled_dot_product_attention.default)
def _attention(  # noqa: PLR0917 (the operator's own signature)
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Without a mask no row can be masked entirely, which PyTorch's form checks every score for.

    Halves stay halves, as in PyTorch's fused kernels; its form would compute in fp32.
    """
    if is_causal:  # PyTorch's form has a constant here that its own exporter loses
        length, keys = query.shape[-2], key.shape[-2]
        attn_mask = query.new_ones((length, keys), dtype=torch.bool).tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        # The operator below adds any mask as it is.
        zero = query.new_zeros(())
        attn_mask = torch.where(attn_mask, zero, zero - math.inf)
    special = attn_mask is not None or enable_gqa
    if dropout_p or (special and query.dtype not in (torch.float16, torch.bfloat16)):
        return aten._scaled_dot_product_attention_math(
            query, key, value, attn_mask, dropout_p, scale=scale, enable_gqa=enable_gqa
        )[0]
    if enable_gqa:
        shared = query.shape[-3] // key.shape[-3]
        key, value = (x.repeat_interleave(shared, -3) for x in (key, value))
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = (query * factor) @ key.transpose(-2, -1)
    if attn_mask is None:
        return torch.softmax(scores, dim=-1) @ value
    scores = scores + attn_mask
    # The diagonal is never masked: each row of a causal mask has a score.
    shares = torch.softmax(scores, dim=-1) if is_causal else aten._safe_softmax(scores, -1)
    return shares @ value
