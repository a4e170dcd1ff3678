"""Normalisation by statistics of the input."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from tvm_sparse.frontends.decompositions.table import aten, rule


@rule(aten.native_group_norm.default)
def _group_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, *rest: Any) -> Any:
    if weight is not None and bias is not None:
        return NotImplemented
    channels = rest[1]
    weight = x.new_ones(channels) if weight is None else weight
    bias = x.new_zeros(channels) if bias is None else bias
    return aten.native_group_norm(x, weight, bias, *rest)
