"""Batches of inputs, as pruning, quantization and distillation read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tvm_sparse.errors import InputError


def several(where: str, batches: Iterable[Any]) -> Sequence[Any]:
    """Return all of ``batches``.

    Raises
    ------
    InputError
        There is none, or they are one batch, whose samples or names would be read as batches.
    """
    if isinstance(batches, Mapping | str) or hasattr(batches, "__array__"):
        found = f"got one {type(batches).__name__} in the place of several batches"
        raise InputError(where, found, "an iterable of batches", "pass [batch] for one batch")
    if not isinstance(batches, Iterable):
        found = f"is of type {type(batches).__name__}"
        raise InputError(where, found, "an iterable of batches")
    kept = batches if isinstance(batches, Sequence) else list(batches)
    if not kept:
        raise InputError(where, "got no batch", "some batches of inputs", "pass a few hundred")
    return kept
