"""A model that is quantized, compiled, and compared with itself at each step."""

from __future__ import annotations

from typing import Any

import torch

import tvm_sparse as ts


def layers_in_bytes(model: torch.nn.Module, x: torch.Tensor) -> int:
    """Return how many layers of ``model`` multiply bytes; what it computes of ``x`` is checked."""
    program: Any = ts.quantize(model, [x])
    library = ts.compile(program, config=ts.Config(measure=False))
    with torch.no_grad():
        expected, quantized = model(x), program.module()(x)
    assert (quantized - expected).abs().max() < 0.03 * expected.abs().max()
    assert (library(x) - quantized).abs().max() < 1e-5
    return sum("uint8" in k.function for k in library.kernels if k.layer)
