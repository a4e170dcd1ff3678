"""Attention of many heads: one operator from the projections to the joined heads."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from tvm_sparse.frontends.converters.affine_bytes import centred
from tvm_sparse.frontends.onnx.converters.microsoft import DOMAIN
from tvm_sparse.frontends.onnx.converters.microsoft.masks import addend
from tvm_sparse.frontends.onnx.node import Node
from tvm_sparse.frontends.onnx.registry import converter

_COMMON = ("num_heads", "scale", "mask_filter_value", "unidirectional")


def _heads(x: Tensor, count: int) -> Tensor:
    """Return (batch, length, hidden) as (batch, heads, length, head size)."""
    return x.reshape(*x.shape[:2], count, x.shape[2] // count).transpose(1, 2)


def _attended(
    node: Node,
    parts: Sequence[Tensor],
    past: tuple[Tensor, Tensor] | Tensor | None,
    mask: Tensor | None,
    bias: Tensor | None = None,
) -> list[Tensor]:
    """Return what queries find, (batch, length, hidden), and keys and values with those before.

    Parts and past ones are (batch, heads, length, size).
    """
    query, key, value = parts
    if (causal := node.attributes.get("unidirectional", 0)) not in (0, 1):
        raise node.unsound(f"unidirectional {causal}", "0 or 1")
    if causal and query.shape[2] != key.shape[2]:
        raise node.refuse("is unidirectional with keys of another length than queries", "as many")
    before = 0
    if past is not None:
        before = past[0].shape[2]
        key, value = torch.cat([past[0], key], 2), torch.cat([past[1], value], 2)
    shape = (query.shape[0], query.shape[2], key.shape[2])
    added = addend(node, mask, shape, before, query.dtype)
    if bias is not None:
        added = bias if added is None else added + bias
    scale = node.attributes.get("scale", 0.0) or None
    found = F.scaled_dot_product_attention(query, key, value, added, scale=scale)
    return [found.transpose(1, 2).flatten(2), key, value]


def _refuse(node: Node, *names: str) -> None:
    """Refuse attributes that change the result and are set."""
    for name in names:
        if node.attributes.get(name):
            raise node.refuse(f"its attribute '{name}' is set", "0", "leave attention unfused")


def _self_attention(  # noqa: PLR0917 (as many as attention has)
    node: Node,
    projected: Tensor,
    sizes: Sequence[int],
    mask: Tensor | None,
    past: Tensor | None,
    bias: Tensor | None = None,
) -> list[Tensor]:
    """Attend with one product's columns: those of queries, of keys and of values."""
    _refuse(node, "do_rotary", "past_present_share_buffer")
    heads = node.attributes["num_heads"]
    query, key, value = (_heads(part, heads) for part in projected.split(list(sizes), -1))
    found, key, value = _attended(node, (query, key, value), past, mask, bias)
    return [found] if len(node.outputs) == 1 else [found, torch.stack([key, value])]


@converter(
    "Attention",
    domain=DOMAIN,
    reads=(*_COMMON, "do_rotary", "past_present_share_buffer", "rotary_embedding_dim"),
)
def _attention(  # noqa: PLR0917 (as many as the operator has)
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    past: Tensor | None = None,
    attention_bias: Tensor | None = None,
    past_length: Tensor | None = None,
    *,
    qkv_hidden_sizes: Sequence[int] = (),
    node: Node,
) -> list[Tensor]:
    """``past_length`` and ``rotary_embedding_dim`` belong to attributes that are refused."""
    projected = torch.matmul(x, weight)
    projected = projected if bias is None else projected + bias
    sizes = list(qkv_hidden_sizes) or [weight.shape[1] // 3] * 3
    return _self_attention(node, projected, sizes, mask, past, attention_bias)


@converter("QAttention", domain=DOMAIN, reads=(*_COMMON, "do_rotary", "past_present_share_buffer"))
def _quantized_attention(  # noqa: PLR0917 (as many as the operator has)
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    x_scale: Tensor,
    weight_scale: Tensor,
    mask: Tensor | None = None,
    x_zero: Tensor | None = None,
    weight_zero: Tensor | None = None,
    past: Tensor | None = None,
    *,
    node: Node,
) -> list[Tensor]:
    """Project bytes; what follows computes in floats."""
    sums = torch.matmul(centred(x, x_zero), centred(weight, weight_zero))
    projected = sums.to(torch.float32) * (x_scale * weight_scale) + bias
    return _self_attention(node, projected, [weight.shape[1] // 3] * 3, mask, past)


@converter("MultiHeadAttention", domain=DOMAIN, reads=_COMMON)
def _many_heads(  # noqa: PLR0917 (as many as the operator has)
    query: Tensor,
    key: Tensor | None = None,
    value: Tensor | None = None,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    attention_bias: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    past_length: Tensor | None = None,
    cache: Tensor | None = None,
    *,
    node: Node,
) -> list[Tensor]:
    """Attend with queries, keys and values that are projected already."""
    if past_length is not None or cache is not None:
        raise node.refuse("shares the buffer of its cache", "a cache that it returns longer")
    if any(node.outputs[3:]):
        raise node.refuse("gives its scores", "its first three outputs", "leave attention unfused")
    parts = _unpacked(node, query, key, value)
    if bias is not None:
        parts = _biased(parts, bias)
    split = [_by_heads(part, node.attributes["num_heads"]) for part in parts]
    past = None if past_key is None or past_value is None else (past_key, past_value)
    return _attended(node, split, past, mask, attention_bias)[: max(1, len(node.outputs))]


def _unpacked(
    node: Node, query: Tensor, key: Tensor | None, value: Tensor | None
) -> tuple[Tensor, ...]:
    """Return queries, keys and values; packed ones are (batch, length, heads, 2 or 3, size)."""
    if query.dim() == 5:
        return tuple(query.select(3, i).flatten(2) for i in range(3))
    if key is not None and key.dim() == 5:
        return query, key.select(3, 0).flatten(2), key.select(3, 1).flatten(2)
    if key is None or value is None:
        raise node.unsound("has queries alone", "keys and values, or all three packed")
    return query, key, value


def _biased(parts: Sequence[Tensor], bias: Tensor) -> tuple[Tensor, ...]:
    """Add the bias of each part; a cache with axes of its own has had it."""
    sizes = [p.shape[2] if p.dim() == 3 else p.shape[1] * p.shape[3] for p in parts]
    pieces = zip(parts, bias.split(sizes), strict=True)
    return tuple(p + b if p.dim() == 3 else p for p, b in pieces)


def _by_heads(x: Tensor, heads: int) -> Tensor:
    return _heads(x, heads) if x.dim() == 3 else x
