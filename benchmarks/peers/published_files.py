"""Programs of one ONNX file, of ours and of the other runtimes, with one thread."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.openvino_models import openvino_model
from tvm_sparse.comparison.reference import onnxruntime_session

Program = Callable[[dict[str, np.ndarray]], list[np.ndarray]]


def ours(artifact: Path, file: Path) -> Program:
    """Return an artifact that was made of ``file``, as the small runtime opens it."""
    import onnx

    import tvm_sparse_runtime

    session = tvm_sparse_runtime.load(artifact)
    names = [value.name for value in onnx.load(file, load_external_data=False).graph.input]
    return lambda feed: [np.asarray(y) for y in session.run(*(feed[name] for name in names))]


def others(file: Path, variant: str, row: dict[str, Any]) -> dict[str, Program]:
    """Return the other runtimes that open ``file``; say in ``row`` why one does not."""
    found = {}
    for name, opened in (("onnxruntime", onnxruntime_program), ("openvino", _openvino)):
        try:
            found[f"{name}, {variant}"] = opened(file)
        except RuntimeError as error:  # OpenVINO has no other
            why = [text for text in str(error).splitlines() if text.strip()][-1]
            row.setdefault("refused", {})[f"{name}, {variant}"] = why[:200]
    return found


def onnxruntime_program(file: Path) -> Program:
    """Return ``file`` as onnxruntime runs it."""
    session = onnxruntime_session(str(file), 1)
    return lambda feed: session.run(None, feed)


def _openvino(file: Path) -> Program:
    request = openvino_model(file, 1).create_infer_request()
    return lambda feed: list(request.infer(feed).values())
