"""ONNX files: read, checked, and their weights taken out; the package ``onnx`` is optional."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tvm_sparse.errors import InputError
from tvm_sparse.frontends.onnx.types import to_array

LARGEST = 1 << 40
"""Bytes that a weight or input may take, more than which no machine has."""


def read_onnx(path: Path) -> Any:
    """Return the ``ModelProto`` in ``path``, with dense initializers that are no inputs.

    Weights in files beside it are read only from its own directory.

    Raises
    ------
    InputError
        ``onnx`` is not installed, or the file is missing or damaged.
    """
    try:
        import onnx
    except ImportError as error:
        raise InputError(
            str(path), "the package 'onnx' is not installed", "", "pip install onnx"
        ) from error
    if not path.is_file():
        raise InputError(str(path), "no such file", "an .onnx file", "check the path")
    try:
        # Given the path, the checker holds the file itself only while it looks at it.
        onnx.checker.check_model(str(path))
        proto = onnx.load(str(path))
    except Exception as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise InputError(
            str(path), f"is no sound ONNX model ({reason[0]})", "", "export the model again"
        ) from error
    _densify(proto.graph)
    return proto


def take_weights(proto: Any) -> dict[str, np.ndarray]:
    """Return the weights of ``proto`` by name, and free its copy of each."""
    weights = {}
    for tensor in proto.graph.initializer:
        weights[tensor.name] = to_array(tensor, f"weight '{tensor.name}'")
        tensor.ClearField("raw_data")
    return weights


def _densify(graph: Any) -> None:
    """Write sparse initializers out, one by one, and drop inputs that only repeat a weight."""
    from onnx import numpy_helper

    for sparse in graph.sparse_initializer:
        name = sparse.values.name
        values = to_array(sparse.values, f"weight '{name}'")
        if int(np.prod([float(n) for n in sparse.dims])) * values.itemsize > LARGEST:
            raise InputError(f"weight '{name}'", f"has the shape {list(sparse.dims)}", "a weight")
        indices = numpy_helper.to_array(sparse.indices)
        value = np.zeros(tuple(sparse.dims), values.dtype)
        if indices.ndim == 1:
            value.reshape(-1)[indices] = values
        else:
            value[tuple(indices.T)] = values
        graph.initializer.append(numpy_helper.from_array(value, name))
    del graph.sparse_initializer[:]
    names = {t.name for t in graph.initializer}
    kept = [value for value in graph.input if value.name not in names]
    del graph.input[:]
    graph.input.extend(kept)
