"""Why a weight cannot get a mask: nothing but plain parameters of floating point can."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import nn
from torch.nn.utils import parametrize, prune
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from tvm_sparse.pruning.masks import WeightMask

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def why_not(module: nn.Module, name: str) -> str:
    """Return why the weight ``name`` of ``module`` cannot be masked, ``""`` if it can.

    One that only our own mask computes can be masked further.
    """
    if parametrize.is_parametrized(module, name):
        chain = list(module.parametrizations[name])  # type: ignore[index]
        return _computed(p for p in chain if not isinstance(p, WeightMask))
    hooks = module._forward_pre_hooks.values()
    if any(isinstance(h, prune.BasePruningMethod) and h._tensor_name == name for h in hooks):
        return "has a mask of torch.nn.utils.prune, which prune.remove makes permanent"
    if name + "_g" in module._parameters or name + "_orig" in module._parameters:
        return _computed(hooks)
    weight = getattr(module, name, None)
    return next(_unusual(weight), "")


def _computed(by: Iterable[object]) -> str:
    """Return that a weight is computed, with the names of what computes it; ``""`` for nothing."""
    names = [type(part).__name__.lstrip("_") for part in by]
    return f"its weight is computed ({', '.join(names)}), not a parameter" if names else ""


def _unusual(weight: object) -> Iterator[str]:
    """Yield what keeps a weight from a mask."""
    if not isinstance(weight, nn.Parameter):
        yield "has no weight" if weight is None else "its weight is computed, not a parameter"
    elif nn.parameter.is_lazy(weight):
        yield "has no shape yet: run the model once before"
    elif is_traceable_wrapper_subclass(weight.data):
        yield f"its weight is of the class {type(weight.data).__name__}, not a plain tensor"
    elif weight.layout != torch.strided:
        yield "its weight is a sparse tensor"
    elif weight.is_inference():
        yield "its weight was made under torch.inference_mode and cannot change"
    elif weight.is_meta:
        yield "its weight is on the meta device and has no values"
    elif weight.dtype not in FLOATS:
        dtype = str(weight.dtype).removeprefix("torch.")
        yield f"its weight is {dtype}, not floating point of 16 bits or more"
    elif not weight.numel():
        yield "its weight has no elements"
