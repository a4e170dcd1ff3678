"""Bags of embeddings."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tvm_sparse.frontends.decompositions.table import aten, rule

_SUM, _MEAN, _MAX = range(3)


@rule(aten._embedding_bag_forward_only.default, aten._embedding_bag.default)
def _embedding_bag(  # noqa: PLR0917 (the operator's own signature)
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Any, ...]:
    """Return bags of rows of ``weight``; the other outputs serve its gradient and are empty."""
    bags, width = offsets.shape[0] - int(include_last_offset), weight.shape[1]
    places = torch.arange(indices.shape[0], dtype=offsets.dtype)
    bag = (offsets[:bags] <= places.unsqueeze(1)).sum(1) - 1
    kept = torch.ones_like(bag, dtype=torch.bool)
    if include_last_offset:
        kept = kept & (places < offsets[-1])
    if padding_idx >= 0:
        kept = kept & (indices != padding_idx)
    rows = aten.embedding.default(weight, indices)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    counts = torch.zeros(bags, dtype=torch.int64).index_add(0, bag, kept.to(torch.int64))
    if mode == _MAX:
        least = torch.full((bags, width), -torch.inf, dtype=weight.dtype)
        rows = torch.where(kept.unsqueeze(1), rows, -torch.inf)
        largest = least.scatter_reduce(0, bag.unsqueeze(1).expand(-1, width), rows, "amax")
        found = torch.where(counts.unsqueeze(1) == 0, 0.0, largest)
    else:
        rows = torch.where(kept.unsqueeze(1), rows, 0.0)
        found = torch.zeros((bags, width), dtype=weight.dtype).index_add(0, bag, rows)
        if mode == _MEAN:
            found = found / counts.clamp(min=1).unsqueeze(1)
    none = indices.new_zeros(0)
    return found, none, none, none
