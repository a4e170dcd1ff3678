"""ONNX files, read and checked; the package ``onnx`` is optional."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tvm_sparse.errors import InputError


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
    from tvm_sparse.frontends.onnx.weights import densify
    from tvm_sparse.onnx_files.checker import check

    if not path.is_file():
        raise InputError(str(path), "no such file", "an .onnx file", "check the path")
    try:
        check(path)
        proto = onnx.load(str(path))
    except Exception as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise InputError(
            str(path), f"is no sound ONNX model ({reason[0]})", "", "export the model again"
        ) from error
    densify(proto)
    _drop_repeated_inputs(proto.graph)
    return proto


def _drop_repeated_inputs(graph: Any) -> None:
    """Drop inputs that only repeat a weight."""
    names = {t.name for t in graph.initializer}
    kept = [value for value in graph.input if value.name not in names]
    del graph.input[:]
    graph.input.extend(kept)
