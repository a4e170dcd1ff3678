"""Example inputs beside a model that has its own shapes: they must fit it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm_sparse.errors import InputError
from tvm_sparse.frontends.model import Model
from tvm_sparse.frontends.structure import plain
from tvm_sparse_runtime.errors import TensorError
from tvm_sparse_runtime.structure import Structure
from tvm_sparse_runtime.tensors import accept


def check_examples(model: Model, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Refuse example inputs that do not fit ``model``.

    Raises
    ------
    InputError
        There are more or fewer than it takes, or one has another shape or type.
    """
    try:
        _extents(model, args, kwargs)
    except TensorError as error:
        where = f"example {error.where}"
        raise InputError(where, error.found, error.expected, error.todo) from error


def example_extents(model: Model, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, int]:
    """Return the extents that example inputs have, by the names of the model's symbols."""
    if all(isinstance(extent, int) for spec in model.inputs for extent in spec.shape):
        return {}
    try:
        return _extents(model, args, kwargs)
    except TensorError:
        return {}


def _extents(model: Model, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, int]:
    names = [spec.name for spec in model.inputs]
    structure = model.structure or Structure(tuple((n, i) for i, n in enumerate(names)), 0)
    given = structure.bind([plain(value) for value in args], plain(dict(kwargs)))
    dims: dict[str, int] = {}
    for spec, value in zip(model.inputs, given, strict=True):
        accept(value, spec, dims)
    return dims
