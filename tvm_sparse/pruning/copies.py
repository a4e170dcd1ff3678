"""Copies of models whose weights may be computed."""

from __future__ import annotations

import copy
from typing import TypeVar

import torch
from torch import nn

Module = TypeVar("Module", bound=nn.Module)


def copied(model: Module) -> Module:
    """Return a deep copy of ``model``.

    Hooks (``torch.nn.utils.prune``, the old ``weight_norm``) leave the weight that they computed
    last in the module, with its gradient's history, which PyTorch does not copy.
    """
    computed = {
        id(value): value.detach().clone()
        for module in model.modules()
        for value in vars(module).values()
        if isinstance(value, torch.Tensor) and not value.is_leaf
    }
    return copy.deepcopy(model, computed)
