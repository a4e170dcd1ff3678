"""Run an imported model without any pass of ours, to compare it with PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import tvm
from tvm import relax

from tvm_sparse.frontends.model import Model

_LAST: list[tuple[Model, relax.VirtualMachine]] = []
"""The model that was built last: tests run one several times."""


def run(model: Model, *inputs: Any) -> list[np.ndarray]:
    """Return the outputs of ``model`` for torch tensors ``inputs``, compiled by stock TVM."""
    if not _LAST or _LAST[0][0] is not model:
        target = tvm.target.Target({"kind": "llvm", "opt-level": 0})
        machine = relax.VirtualMachine(relax.build(model.module, target), tvm.cpu())
        _LAST[:] = [(model, machine)]
    arrays = [np.asarray(x) for x in inputs] + list(model.weights.values())
    return [out.numpy() for out in _LAST[0][1]["main"](*[tvm.runtime.tensor(a) for a in arrays])]


def largest_difference(model: Model, module: torch.nn.Module, *inputs: torch.Tensor) -> float:
    """Return the largest difference of the first output from ``module``'s, in evaluation mode."""
    training = module.training
    with torch.no_grad():
        expected = module.eval()(*inputs)
    module.train(training)
    if not isinstance(expected, torch.Tensor):
        expected = next(iter(expected.values() if isinstance(expected, dict) else expected))
    return float(np.abs(run(model, *inputs)[0] - expected.numpy()).max())


def wrong_outputs(model: Model, module: torch.nn.Module, *inputs: torch.Tensor) -> list[str]:
    """Return the names of the outputs that differ from those of ``module``, a mapping."""
    with torch.no_grad():
        expected = module.eval()(*inputs)
    found = zip(expected.items(), run(model, *inputs), strict=True)
    return [
        name
        for (name, value), got in found
        if not np.allclose(got, value.numpy(), rtol=1e-5, atol=1e-5)
    ]
