"""Bags of embeddings."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tvm_sparse.frontends.decompositions.table import aten, rule


@rule(aten._embedding_bag_forward_only.default, aten._embedding_bag.default)
def _embedding_bag(weight: Tensor, *arguments: Any) -> Any:
    """Add rows in half precision up in single precision."""
    if weight.dtype in (torch.float32, torch.float64):
        return NotImplemented
    wide = [a.float() if isinstance(a, Tensor) and a.is_floating_point() else a for a in arguments]
    found, *others = aten._embedding_bag_forward_only.default(weight.float(), *wide)
    return found.to(weight.dtype), *others
