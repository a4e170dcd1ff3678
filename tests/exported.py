"""Modules as ONNX files, by either of PyTorch's exporters."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn


def exported(model: nn.Module, x: torch.Tensor, path: Path, *, old: bool, **options: Any) -> Path:
    """Write ``model`` with an input ``x`` and an output ``y``; ``old`` follows a trace."""
    names = {"input_names": ["x"], "output_names": ["y"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (x,), str(path), dynamo=not old, verbose=False, **names, **options)
    return path
