"""Dense runtimes that run a whole PyTorch network on one thread."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from benchmarks.peers.openvino_models import openvino_model

Program = Callable[[], Any]


def dense_runtimes(model: nn.Module, x: torch.Tensor) -> dict[str, Program]:
    """Return the runtimes that are installed; each program returns the output as an array."""

    def eager() -> Any:
        with torch.no_grad():
            return model(x).numpy()

    found: dict[str, Program] = {"torch eager": eager}
    if importlib.util.find_spec("openvino"):
        found["openvino"] = _openvino(model, x)
    if importlib.util.find_spec("onnxruntime") and importlib.util.find_spec("onnxscript"):
        found["onnxruntime"] = _onnxruntime(model, x)
    return found


def _openvino(model: nn.Module, x: torch.Tensor) -> Program:
    import openvino

    converted = openvino.convert_model(model, example_input=x, input=[tuple(x.shape)])
    request = openvino_model(converted, 1).create_infer_request()
    return lambda: request.infer([x.numpy()])[0]


def _onnxruntime(model: nn.Module, x: torch.Tensor) -> Program:
    import onnxruntime

    file = io.BytesIO()
    torch.onnx.export(model, (x,), dynamo=True, verbose=False).save(file)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = 1, 1
    session = onnxruntime.InferenceSession(file.getvalue(), options, ["CPUExecutionProvider"])
    feed = {session.get_inputs()[0].name: x.numpy()}
    return lambda: session.run(None, feed)[0]
