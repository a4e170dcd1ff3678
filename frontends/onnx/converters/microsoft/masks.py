"""Masks of attention, as what is added to its scores."""

from __future__ import annotations

import torch
from torch import Tensor

from tvm_sparse.frontends.onnx.node import Node

_FILTER = -10000.0
"""What a masked score is lowered by where the node does not say."""


def addend(
    node: Node, mask: Tensor | None, shape: tuple[int, int, int], past: int, dtype: torch.dtype
) -> Tensor | None:
    """Return what is added to scores of (batch, heads, length, total), None for nothing.

    Parameters
    ----------
    mask
        Integers: (batch, total) or (batch, length, total), where zero masks; (batch,), the ends of
        the sequences; (2 * batch,), their ends and then their beginnings.
    shape
        (batch, length, total).
    past
        How many of the total are before the first query.
    dtype
        Of the scores.

    Raises
    ------
    UnsupportedError
        The mask has another form.
    """
    added = None
    if mask is not None:
        filtered = node.attributes.get("mask_filter_value", _FILTER)
        zero = torch.zeros((), dtype=dtype)
        added = torch.where(_kept(node, mask, shape), zero, zero + filtered)
    if not node.attributes.get("unidirectional", 0):
        return added
    _, length, total = shape
    later = torch.arange(total)[None] > torch.arange(length)[:, None] + past
    lowest = torch.full((), torch.finfo(dtype).min, dtype=dtype)
    return torch.where(later, lowest, torch.zeros_like(lowest) if added is None else added)


def _kept(node: Node, mask: Tensor, shape: tuple[int, int, int]) -> Tensor:
    """Return which scores count, so that it broadcasts to all."""
    batch, _, total = shape
    if mask.dim() == 3:
        return (mask > 0)[:, None]
    if mask.dim() == 2:
        return (mask > 0)[:, None, None]
    if mask.dim() == 1 and mask.shape[0] in (batch, 2 * batch):
        places = torch.arange(total)[None]
        kept = places < mask[:batch, None]
        if mask.shape[0] == 2 * batch:
            kept = kept & (places >= mask[batch:, None])
        return kept[:, None, None]
    raise node.refuse(
        f"its mask has the shape {list(mask.shape)}",
        "(batch, total), (batch, length, total), (batch,) or (2 * batch,)",
        "leave attention unfused",
    )
