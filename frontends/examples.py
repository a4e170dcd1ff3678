"""Example inputs beside a model that has its own shapes: they must fit it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import tirx

from tvm_sparse.errors import InputError
from tvm_sparse.frontends.model import Model
from tvm_sparse.frontends.structure import plain
from tvm_sparse.passes.graph.rewrite import shape_of
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
    """Return the extents that example inputs have, by the names of the model's symbols.

    Multiples are symbols of its module, too: ``32 * h`` is one there until it is lowered.
    """
    if all(isinstance(extent, int) for spec in model.inputs for extent in spec.shape):
        return {}
    try:
        found = _extents(model, args, kwargs)
        given = zip(model.module["main"].params, _given(model, args, kwargs), strict=False)
    except TensorError:
        return {}
    pairs = [
        pair
        for param, value in given
        for pair in zip(shape_of(param) or (), getattr(value, "shape", ()), strict=False)
    ]
    own = {extent.name: int(size) for extent, size in pairs if isinstance(extent, tirx.Var)}
    return own | found


def _extents(model: Model, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, int]:
    dims: dict[str, int] = {}
    for spec, value in zip(model.inputs, _given(model, args, kwargs), strict=True):
        accept(value, spec, dims)
    return dims


def _given(model: Model, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Return what the inputs of ``model`` are in a call, in their order."""
    names = [spec.name for spec in model.inputs]
    structure = model.structure or Structure(tuple((n, i) for i, n in enumerate(names)), 0)
    return list(structure.bind([plain(value) for value in args], plain(dict(kwargs))))
