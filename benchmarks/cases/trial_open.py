"""Inputs of the trial's networks with open extents: which axes are open, and calls of other sizes.

Every input has an open batch. Numbers of tokens and waves of sound have an open length, too.
"""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.cases.trial_networks import TINY

SIZES = ((1, 0), (2, 1), (5, -7), (3, 9))
"""Of each call: its batch, and what its lengths are longer than the example's."""

SOUND = 720
"""Samples of the shortest wave."""


def axes(inputs: dict[str, Any]) -> dict[str, Any]:
    """Return ``dynamic_shapes`` of a call with these arguments."""
    batch = torch.export.Dim("batch", min=1, max=64)
    return {name: _axes(name, value, batch) for name, value in inputs.items()}


def _axes(name: str, value: Any, batch: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return None
    found = {0: batch}
    if _has_length(value):
        length = "decoded" if name.startswith("decoder") else "length"
        if value.is_floating_point():  # what convolutions make one frame of, and more
            found[1] = torch.export.Dim(length, min=SOUND, max=4 * value.shape[1])
        else:
            found[1] = torch.export.Dim(length, min=1, max=TINY["max_position_embeddings"])
    return found


def _has_length(value: torch.Tensor) -> bool:
    """Whether a tensor is (batch, tokens) or (batch, samples)."""
    return value.dim() == 2


def call(inputs: dict[str, Any], batch: int, longer: int) -> dict[str, Any]:
    """Return arguments like ``inputs`` of another batch and other lengths, drawn from a seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(batch)
        return {name: _drawn(name, value, batch, longer) for name, value in inputs.items()}


def _drawn(name: str, value: Any, batch: int, longer: int) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    shape = [batch, *value.shape[1:]]
    if _has_length(value):
        shape[1] += longer
    if value.is_floating_point():
        return torch.randn(shape)
    if name.endswith("mask"):
        kept = shape[1] - torch.arange(batch)[:, None] % 4
        return (torch.arange(shape[1])[None] < kept).to(value.dtype)
    return torch.randint(3, int(value.max()) + 1, shape, dtype=value.dtype)
