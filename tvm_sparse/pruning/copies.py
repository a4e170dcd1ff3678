"""Copies of models whose weights may be computed."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import TypeVar

import torch
from torch import nn

Module = TypeVar("Module", bound=nn.Module)


def copied(model: Module, own: Iterable[torch.Tensor] | None = None) -> Module:
    """Return a deep copy of ``model``; with ``own``, one that shares all parameters but these.

    Hooks (``torch.nn.utils.prune``, the old ``weight_norm``) leave the weight that they computed
    last in the module, with its gradient's history, which PyTorch does not copy.
    """
    kept = set() if own is None else {id(tensor) for tensor in own}
    named = () if own is None else model.parameters()
    shared = {id(tensor): tensor for tensor in named if id(tensor) not in kept}
    computed = {
        id(value): value.detach().clone()
        for module in model.modules()
        for value in vars(module).values()
        if isinstance(value, torch.Tensor) and not value.is_leaf
    }
    return copy.deepcopy(model, {**shared, **computed})
