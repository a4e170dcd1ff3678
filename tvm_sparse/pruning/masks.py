"""Masks as torch parametrizations: the weight stays a parameter, its zeros stay zero."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.utils import parametrize

from tvm_sparse.pruning.copies import copied


class WeightMask(nn.Module):
    """Parametrization ``weight = where(mask, original, 0)``; ``mask`` is a bool buffer.

    Gradients of masked entries are zero, so optimizers leave them alone (whatever momentum does to
    ``original`` never shows). The mask is changed in place, so that a compiled module and an
    optimizer's references stay valid.
    """

    mask: torch.Tensor

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("mask", torch.ones_like(weight, dtype=torch.bool))

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        """Return ``weight`` with exact zeros where the mask is False."""
        return torch.where(self.mask, weight, 0.0)

    def right_inverse(self, weight: torch.Tensor) -> torch.Tensor:
        """Return what ``original`` becomes when someone assigns ``module.weight = weight``."""
        return weight


def find_mask(module: nn.Module, name: str = "weight") -> WeightMask | None:
    """Return the mask on parameter ``name`` of ``module``, ``None`` if it has none."""
    if not parametrize.is_parametrized(module, name):
        return None
    return next((p for p in _chain(module, name) if isinstance(p, WeightMask)), None)


def original_parameter(module: nn.Module, name: str = "weight") -> nn.Parameter:
    """Return the parameter under the mask of ``name``, the one that holds the gradient."""
    original = _chain(module, name).original
    assert isinstance(original, nn.Parameter)
    return original


def _chain(module: nn.Module, name: str) -> parametrize.ParametrizationList:
    lists = module.parametrizations
    assert isinstance(lists, nn.ModuleDict)
    chain = lists[name]
    assert isinstance(chain, parametrize.ParametrizationList)
    return chain


def attach_mask(module: nn.Module, name: str = "weight") -> WeightMask:
    """Put a mask of ones on parameter ``name``, or return the mask that is there."""
    mask = find_mask(module, name)
    if mask is None:
        mask = WeightMask(getattr(module, name))
        parametrize.register_parametrization(module, name, mask)
        if isinstance(module, nn.RNNBase) and _refresh not in module._forward_pre_hooks.values():
            module.register_forward_pre_hook(_refresh)
    return mask


def _refresh(module: nn.RNNBase, _: object = None) -> None:
    """Recurrent layers compute with a list of their weights: put the masked ones into it."""
    module._flat_weights = [getattr(module, name) for name in module._flat_weights_names]


def squash_mask(module: nn.Module, name: str = "weight") -> None:
    """Write the zeros into parameter ``name`` and remove its mask; does nothing without one."""
    if find_mask(module, name) is None:
        return
    # torch keeps the property `weight` on a class made for this module, but a deep copy shares that
    # class: removing the property there would break the other module.
    shared = type(module)
    module.__class__ = type(shared.__name__, shared.__bases__, dict(shared.__dict__))
    parametrize.remove_parametrizations(module, name, leave_parametrized=True)
    if isinstance(module, nn.RNNBase) and not parametrize.is_parametrized(module):
        hooks = module._forward_pre_hooks
        for key in [k for k, hook in hooks.items() if hook is _refresh]:
            del hooks[key]
        _refresh(module)


def untie(model: nn.Module, module: nn.Module, name: str = "weight") -> None:
    """Give ``module`` a parameter of its own where the masked one is another module's, too.

    The others, an embedding tied to a pruned output layer, see no mask, and must not lose weights
    when the mask is squashed: the network computes the same before and after. Without a mask
    nothing is done.
    """
    if find_mask(module, name) is None:
        return
    original = original_parameter(module, name)
    holders = [m for m in model.modules() if any(p is original for p in m._parameters.values())]
    if len(holders) > 1:
        own = nn.Parameter(original.detach().clone(), requires_grad=original.requires_grad)
        _chain(module, name).original = own


def squashed_copy(model: nn.Module, *, shares: bool = False) -> nn.Module:
    """Return a copy of ``model`` with the zeros in plain weights; ``model`` keeps its masks.

    If it ``shares``, parameters of modules without masks are those of ``model``: it is only read.
    """
    masked = [m for m in model.modules() if parametrize.is_parametrized(m)]
    result = copied(model, [p for m in masked for p in m.parameters()] if shares else None)
    for module in list(result.modules()):
        if parametrize.is_parametrized(module):
            for name in list(module.parametrizations):  # type: ignore[arg-type]
                untie(result, module, name)
                squash_mask(module, name)
    return result
