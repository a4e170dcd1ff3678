"""Hidden states of a network and its pruned copy, and how far they are apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from tvm_sparse.errors import InputError
from tvm_sparse.pruning.compensation.calls import Batch, attended, run


def states_of(model: nn.Module, modules: Sequence[nn.Module], batch: Batch) -> list[list[Tensor]]:
    """Return the floating-point outputs of each of ``modules`` when ``model`` runs."""
    found: dict[int, list[Tensor]] = {}

    def see(module: nn.Module, _: Any, output: Any) -> None:
        leaves = pytree.tree_leaves(output)
        found.setdefault(id(module), []).extend(
            x for x in leaves if isinstance(x, Tensor) and x.is_floating_point()
        )

    handles = [module.register_forward_hook(see) for module in modules]
    try:
        run(model, batch)
    finally:
        for handle in handles:
            handle.remove()
    return [found.get(id(module), []) for module in modules]


def distance(found: list[list[Tensor]], wanted: list[list[Tensor]], batch: Batch) -> Tensor:
    """Return the loss of all matched outputs."""
    terms = []
    for states, targets in zip(found, wanted, strict=True):
        for state, target in zip(states, targets, strict=True):
            s, t = attended(state, batch).float(), attended(target, batch).float()
            terms.append((s - t).square().sum() / t.square().sum().clamp(min=1e-12))
    if not terms:
        raise InputError("match", "no output to compare", "modules that the network calls")
    return torch.stack(terms).sum()
