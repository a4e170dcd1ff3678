"""What the projections of ``nn.MultiheadAttention`` read; it calls no submodule that could tell."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tvm_sparse.pruning.compensation.calls import Call

NAMES = ("query", "key", "value")
_SEPARATE = {"q_proj_weight": 0, "k_proj_weight": 1, "v_proj_weight": 2}
"""Position of the argument that a projection with a weight of its own reads."""


def projected(module: nn.MultiheadAttention, parameter: str, call: Call) -> list[Tensor]:
    """Return what equal parts of the rows of ``parameter`` read, one tensor if all read the same.

    ``in_proj_weight`` stacks the projections of query, key and value.
    """
    args, kwargs = call
    tensors = [args[i] if i < len(args) else kwargs[name] for i, name in enumerate(NAMES)]
    if parameter in _SEPARATE:
        return [tensors[_SEPARATE[parameter]]]
    same = tensors[0] is tensors[1] and tensors[1] is tensors[2]
    return tensors[:1] if same else tensors


def heads_of(module: nn.MultiheadAttention, call: Call) -> Tensor:
    """Return the merged heads (..., features) that ``module.out_proj`` reads in ``call``."""
    projection = module.out_proj
    weight = projection.weight
    identity = nn.Linear(module.embed_dim, module.embed_dim).to(weight)
    args, kwargs = call
    with torch.no_grad():
        identity.weight.copy_(torch.eye(module.embed_dim))
        identity.bias.zero_()
        module.out_proj = identity  # type: ignore[assignment]
        try:
            heads = module.forward(*args, **kwargs)[0]
        finally:
            module.out_proj = projection
    assert isinstance(heads, Tensor)
    return heads
