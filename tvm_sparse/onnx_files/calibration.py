"""Calibration data for an ONNX model: arrays by the names of its inputs, checked first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tvm_sparse.base.batches import several
from tvm_sparse.errors import InputError
from tvm_sparse.onnx_files.document import Document
from tvm_sparse.onnx_files.extents import fixed_extent, said

Batch = Any
"""An array, a sequence of arrays in the order of the inputs, or a mapping by their names."""

WHERE = "calibration"


def checked(document: Document, batches: Iterable[Batch]) -> list[dict[str, np.ndarray]]:
    """Return ``batches`` as arrays by the names of the model's inputs.

    Where the model's batches have a fixed size, one with several times as many samples is cut.

    Raises
    ------
    InputError
        There is none, or one has other names, types or shapes than the inputs.
    """
    graph = document.proto.graph
    own = {tensor.name for tensor in graph.initializer}
    inputs = {value.name: value for value in graph.input if value.name not in own}
    given = several(WHERE, batches if isinstance(batches, Mapping) else list(batches))
    return [piece for batch in given for piece in _cut(_named(batch, inputs), inputs)]


def _named(batch: Batch, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the arrays of ``batch`` by name, each with the type and rank of its input."""
    names = ", ".join(f"'{name}'" for name in inputs)
    if isinstance(batch, Mapping):
        given = dict(batch)
    else:
        listed = isinstance(batch, Sequence) and not isinstance(batch, str)
        arrays = list(batch) if listed else [batch]
        if len(arrays) != len(inputs):
            found = f"a batch has {len(arrays)} arrays"
            raise InputError(WHERE, found, f"{len(inputs)}: {names}", "give them by name")
        given = dict(zip(inputs, arrays, strict=True))
    for name in given:
        if name not in inputs:
            raise InputError(WHERE, f"the model has no input '{name}'", names)
    for name in inputs:
        if name not in given:
            raise InputError(WHERE, f"nothing for the input '{name}'", names)
    return {name: _array(name, given[name], value) for name, value in inputs.items()}


def _array(name: str, given: Any, value: Any) -> np.ndarray:
    from onnx import TensorProto, helper

    where, kind = f"{WHERE}, input '{name}'", value.type.tensor_type
    array = np.asarray(given.detach().cpu().numpy() if hasattr(given, "detach") else given)
    if not value.type.HasField("tensor_type") or kind.elem_type == TensorProto.STRING:
        raise InputError(where, "is no tensor of numbers", "a model that takes numbers only")
    wanted = helper.tensor_dtype_to_np_dtype(kind.elem_type)
    if array.dtype != wanted:
        raise InputError(where, f"is {array.dtype}", str(wanted), "convert it with astype")
    dims = kind.shape.dim
    if kind.HasField("shape") and array.ndim != len(dims):
        raise InputError(where, f"has shape {list(array.shape)}", _shape(dims))
    if not array.size:
        raise InputError(where, f"has shape {list(array.shape)}", "some elements")
    return array


def _cut(batch: dict[str, np.ndarray], inputs: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield ``batch`` in pieces of the model's own size, which every fixed extent has."""
    pieces = 1
    for name, array in batch.items():
        dims = inputs[name].type.tensor_type.shape.dim
        for axis, (extent, dim) in enumerate(zip(array.shape, dims, strict=False)):
            fixed = fixed_extent(dim)
            if not fixed or extent == fixed:
                continue
            several = 1 if axis or extent % fixed else extent // fixed
            if several == 1 or pieces not in (1, several):
                where = f"{WHERE}, input '{name}'"
                raise InputError(where, f"has shape {list(array.shape)}", _shape(dims))
            pieces = several
    for i in range(pieces):
        yield {
            name: _piece(array, inputs[name].type.tensor_type.shape.dim, i)
            for name, array in batch.items()
        }


def _piece(array: np.ndarray, dims: Any, i: int) -> np.ndarray:
    size = fixed_extent(dims[0]) if len(dims) else None
    return array[i * size : (i + 1) * size] if size and len(array) != size else array


def _shape(dims: Any) -> str:
    """Return a shape as messages have it, open extents by their names."""
    extents = (said(dim) for dim in dims)
    return f"shape [{', '.join('?' if e is None else str(e) for e in extents)}]"
