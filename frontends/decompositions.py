"""How composite PyTorch operators are taken apart before the import."""

from __future__ import annotations

import math
from typing import Any

import torch

_KEPT = (torch.ops.aten.linear.default, torch.ops.aten.matmul.default)
"""Decomposed, a product of more than two axes becomes a batched one, with a copy of the weight
for each batch."""


def decompositions() -> Any:
    """Return PyTorch's core decompositions, but with products whole and attention plain."""
    table = torch.export.default_decompositions()
    for operator in _KEPT:
        table.pop(operator)
    table[torch.ops.aten.scaled_dot_product_attention.default] = _attention
    return table


def _attention(  # noqa: PLR0917 (the operator's own signature)
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """Scaled dot-product attention; without a mask no row can be masked entirely.

    PyTorch's own form checks every score for that.
    """
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        # The operator below adds any mask as it is.
        zero = query.new_zeros(())
        attn_mask = torch.where(attn_mask, zero, zero - math.inf)
    if attn_mask is not None or dropout_p or is_causal or enable_gqa:
        return torch.ops.aten._scaled_dot_product_attention_math(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )[0]
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    return torch.softmax((query * factor) @ key.transpose(-2, -1), dim=-1) @ value
