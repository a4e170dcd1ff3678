"""Inputs and calls that make programs comparable."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tvm_sparse.errors import InputError
from tvm_sparse.profile import random_inputs

TOLERANCE = 1e-3
"""Relative error up to which a program in float32 computes the same as another."""


def inputs_for(model: Any, files: Sequence[Path] | None = None) -> list[np.ndarray]:
    """Return the arrays in ``files``, or random ones for the inputs of a model or library."""
    if files:
        return [_read(path) for path in files]
    return random_inputs(model.inputs, model.bounds)


def _read(path: Path) -> np.ndarray:
    try:
        return np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise InputError(f"input '{path}'", f"cannot be read ({error})", "a .npy file") from error


def call(library: Any, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Run ``library`` and return all its outputs."""
    return [np.from_dlpack(x) for x in library.run(*inputs)]
