"""ONNX files as models, through TVM's importer; the package ``onnx`` is optional."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tvm_sparse.errors import InputError
from tvm_sparse.frontends.model import Model, build
from tvm_sparse.frontends.quiet import quiet


def load_onnx(path: Path) -> Model:
    """Import the ONNX file ``path``; symbolic dimensions stay symbolic.

    Raises
    ------
    InputError
        ``onnx`` is not installed, the file is missing or damaged, or an operator is unknown.
    """
    proto = read_onnx(path)
    _refuse_unknown_operators(proto.graph, path)
    from tvm.relax.frontend.onnx import from_onnx

    with quiet():
        try:
            module = from_onnx(proto, keep_params_in_input=True)
        except Exception as error:
            raise InputError(str(path), f"cannot be imported ({error})") from error
    weights = {
        name.removeprefix("onnx::"): (name, value) for name, value in initializers(proto).items()
    }
    return build(module, weights, tuple(output.name for output in proto.graph.output))


def read_onnx(path: Path) -> Any:
    """Return the ``ModelProto`` in ``path``, with dense initializers that are no inputs.

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
        proto = onnx.load(str(path))
        onnx.checker.check_model(proto)
    except Exception as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise InputError(
            str(path), f"is no sound ONNX model ({reason[0]})", "", "export the model again"
        ) from error
    _densify(proto.graph)
    return proto


def initializers(proto: Any) -> dict[str, np.ndarray]:
    """Return the weights of ``proto`` by name."""
    from onnx import numpy_helper

    return {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer}


def _densify(graph: Any) -> None:
    """Write sparse initializers out, one by one, and drop inputs that only repeat a weight."""
    from onnx import numpy_helper

    for sparse in graph.sparse_initializer:
        values = numpy_helper.to_array(sparse.values)
        indices = numpy_helper.to_array(sparse.indices)
        value = np.zeros(tuple(sparse.dims), values.dtype)
        if indices.ndim == 1:
            value.reshape(-1)[indices] = values
        else:
            value[tuple(indices.T)] = values
        graph.initializer.append(numpy_helper.from_array(value, sparse.values.name))
    del graph.sparse_initializer[:]
    names = {t.name for t in graph.initializer}
    kept = [value for value in graph.input if value.name not in names]
    del graph.input[:]
    graph.input.extend(kept)


def _refuse_unknown_operators(graph: Any, path: Path) -> None:
    from tvm.relax.frontend.onnx import onnx_frontend

    known = {*onnx_frontend._get_convert_map(), "If"}
    for node in graph.node:
        if node.op_type not in known:
            raise InputError(
                f"{path}: node '{node.name}'",
                f"operator '{node.op_type}' cannot be imported",
                "operators that TVM's ONNX importer knows",
                "export the model with other operators",
            )
