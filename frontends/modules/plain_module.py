"""The module that PyTorch's exporter reads: what wrappers hold, with values in its weights."""

from __future__ import annotations

import itertools

import torch
from torch import nn

from tvm_sparse.errors import InputError


def plain_module(module: nn.Module) -> nn.Module:
    """Return ``module`` without what ``torch.compile`` and parallel training wrap around it.

    Raises
    ------
    InputError
        It is compiled by ``torch.jit``, or a weight has no values.
    """
    while isinstance(module, torch._dynamo.OptimizedModule | nn.DataParallel | _PARALLEL):
        module = getattr(module, "_orig_mod", None) or module.module
    if isinstance(module, torch.jit.ScriptModule):
        raise InputError(
            f"model '{module.original_name}'",
            "is a ScriptModule, whose source torch.export cannot read",
            "an nn.Module",
            "pass the module that torch.jit.script or torch.jit.trace was given",
        )
    for name, tensor in itertools.chain(module.named_parameters(), module.named_buffers()):
        if nn.parameter.is_lazy(tensor):
            raise InputError(
                f"weight '{name}'", "has no shape yet", "a shape", "run the model once before"
            )
        if tensor.is_meta:
            raise InputError(
                f"weight '{name}'", "is on the meta device", "values", "load the weights first"
            )
    return module


_PARALLEL = nn.parallel.DistributedDataParallel
