"""What dense runtimes make of one PyTorch layer: eager, torch.compile, onnxruntime, OpenVINO."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import warnings
from collections.abc import Callable
from typing import Any

import torch

Program = Callable[[], Any]


def peers(module: torch.nn.Module, x: torch.Tensor, *, everything: bool) -> dict[str, Program]:
    """Return the programs that run ``module`` on ``x``; only eager PyTorch unless ``everything``.

    A runtime that is not installed, or refuses the layer, is left out.
    """
    found: dict[str, Program] = {"eager": _eager(module, x)}
    for name, make in (
        ("torch.compile", _compiled),
        ("onnxruntime", _onnxruntime),
        ("openvino", _openvino),
    ):
        if not everything:
            continue
        with contextlib.suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with (
                contextlib.redirect_stdout(io.StringIO()),
                contextlib.redirect_stderr(io.StringIO()),
            ):
                program = make(module, x)
                program()
            found[name] = program
    return found


def _eager(module: torch.nn.Module, x: torch.Tensor) -> Program:
    def run() -> Any:
        with torch.inference_mode():
            return module(x)

    return run


def _compiled(module: torch.nn.Module, x: torch.Tensor) -> Program:
    torch._dynamo.reset()  # its limit of compilations would leave the ninth layer to eager
    compiled = torch.compile(module)

    def run() -> Any:
        with torch.inference_mode():
            return compiled(x)

    return run


def _onnx(module: torch.nn.Module, x: torch.Tensor) -> bytes:
    file = io.BytesIO()
    program = torch.onnx.export(module, (x,), dynamo=True, verbose=False)
    program.save(file)
    return file.getvalue()


def _onnxruntime(module: torch.nn.Module, x: torch.Tensor) -> Program:
    if importlib.util.find_spec("onnxruntime") is None:
        raise ModuleNotFoundError("onnxruntime")
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        _onnx(module, x), settings, providers=["CPUExecutionProvider"]
    )
    feed = {session.get_inputs()[0].name: x.numpy()}
    return lambda: session.run(None, feed)[0]


def _openvino(module: torch.nn.Module, x: torch.Tensor) -> Program:
    import openvino

    program = openvino.compile_model(
        openvino.convert_model(module, example_input=x),
        "CPU",
        {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"},
    )
    request = program.create_infer_request()
    data = x.numpy()

    def run() -> Any:
        return request.infer([data], share_inputs=True, share_outputs=True)[0]

    return run
