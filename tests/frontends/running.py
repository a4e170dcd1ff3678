"""Run an imported model through our own pipeline, to compare it with PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import tvm_sparse as ts
from tvm_sparse.frontends.model import Model

CONFIG = ts.Config(sparse=False, measure=False, cache=False, tuned=False)

_LAST: list[tuple[Model, ts.Library]] = []
"""The model that was compiled last: tests run one several times."""


def run(model: Model, *inputs: Any) -> list[np.ndarray]:
    """Return the outputs of ``model`` for torch tensors ``inputs``."""
    if not _LAST or _LAST[0][0] is not model:
        _LAST[:] = [(model, ts.compile(model, config=CONFIG))]
    return list(_LAST[0][1].run(*(np.asarray(x) for x in inputs)))


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
