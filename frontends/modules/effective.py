"""Effective weights: what a layer really multiplies by once masks are applied."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import cast

import ml_dtypes
import numpy as np
import torch
from torch import nn
from torch.nn.utils import parametrize, prune
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from tvm_sparse.errors import InputError


def inference_copy(module: nn.Module) -> nn.Module:
    """Return ``module`` in evaluation mode with effective weights; the original is untouched.

    The copy has its own structure but shares every tensor that no mask changes.
    Pruning hooks (:mod:`torch.nn.utils.prune`) and parametrizations (:mod:`torch.ao.pruning`,
    weight norm) are replaced by their result, sparse tensors by dense ones with the same zeros.
    """
    result = copy.deepcopy(module, {id(t): t for t in all_tensors(module)}).eval()
    with torch.no_grad():
        for part in list(result.modules()):
            _fold(part)
    return result


def all_tensors(module: nn.Module) -> Iterator[torch.Tensor]:
    """Yield every tensor that a deep copy of ``module`` would meet, computed ones included."""
    yield from module.parameters()
    yield from module.buffers()
    for part in module.modules():
        for value in vars(part).values():
            held = value.values() if isinstance(value, dict) else value
            items = held if isinstance(value, dict | list | tuple) else [value]
            yield from (item for item in items if isinstance(item, torch.Tensor))


def masked_names(module: nn.Module) -> Iterator[str]:
    """Yield the names of the direct tensors of ``module`` that a mask or formula computes."""
    if parametrize.is_parametrized(module):
        yield from cast("nn.ModuleDict", module.parametrizations)
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, prune.BasePruningMethod):
            yield hook._tensor_name


def effective(module: nn.Module, name: str) -> torch.Tensor:
    """Return the tensor that ``module`` uses as ``name`` in a forward pass.

    A pruning hook writes the product into the module only when it runs next, so a mask that was
    changed since must be applied here.
    """
    original, mask = module._parameters.get(name + "_orig"), module._buffers.get(name + "_mask")
    if original is not None and mask is not None:
        return original.detach() * mask
    return getattr(module, name).detach()


def _fold(module: nn.Module) -> None:
    """Replace, on our own copy, the computed and the sparse tensors of one module."""
    computed = {name: effective(module, name) for name in masked_names(module)}
    if parametrize.is_parametrized(module):
        # The parametrized class has a property for each name and is shared with the original.
        module.__class__ = type(module).__bases__[0]
        del module._modules["parametrizations"]
    for key, hook in list(module._forward_pre_hooks.items()):
        if isinstance(hook, prune.BasePruningMethod):
            del module._forward_pre_hooks[key]
            name = hook._tensor_name
            del module._parameters[name + "_orig"], module._buffers[name + "_mask"]
            vars(module).pop(name, None)
    for name, parameter in module._parameters.items():
        if parameter is not None and is_sparse(parameter):
            computed[name] = parameter.detach()
    for name, value in computed.items():
        # setattr, because recurrent layers keep a second list of their weights up to date in it.
        setattr(module, name, nn.Parameter(dense(value), requires_grad=False))
    for name, buffer in module._buffers.items():
        if buffer is not None and is_sparse(buffer):
            module._buffers[name] = dense(buffer)


def is_sparse(tensor: torch.Tensor) -> bool:
    """Whether ``tensor`` is stored sparse: COO, CSR, CSC, BSR, BSC or semi-structured."""
    semi_structured = isinstance(tensor.data, torch.sparse.SparseSemiStructuredTensor)
    return semi_structured or tensor.layout != torch.strided


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """Return ``tensor`` with its zeros written out; what it means, if torchao has quantized it."""
    if is_traceable_wrapper_subclass(tensor) and hasattr(tensor, "qdata"):
        return tensor.dequantize()
    return tensor.to_dense() if is_sparse(tensor) else tensor


def to_numpy(tensor: torch.Tensor, name: str) -> np.ndarray:
    """Return ``tensor`` as an array, without a copy where it is dense and on the CPU.

    Raises
    ------
    InputError
        The tensor ``name`` has no values (it is on the meta device).
    """
    if tensor.is_meta:
        raise InputError(
            f"weight '{name}'", "is on the meta device", "values", "load the weights first"
        )
    value = dense(tensor.detach()).cpu().contiguous()
    if value.dtype == torch.bfloat16:
        return value.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return value.numpy()


def to_tensor(array: np.ndarray) -> torch.Tensor:
    """Return ``array`` as a tensor on its memory, the other way of :func:`to_numpy`."""
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
