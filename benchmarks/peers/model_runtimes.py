"""The dense runtimes of the whole-model benchmark: how each writes and opens its file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.peers.openvino_models import openvino_model
from tvm_sparse.comparison.quantized import quantize
from tvm_sparse.comparison.reference import fed, onnxruntime_session

QUANTIZED = "int8.onnx"
INT8 = " int8"
"""What the names of runtimes end with that read bytes."""


def _write_inductor(model: Any, x: torch.Tensor, file: Path) -> None:
    """Weights frozen, so packed ahead (else an LSTM takes 20 times as long); any thread count."""
    settings = {"freezing": True, "cpp.dynamic_threads": True}
    with torch.no_grad():
        program = torch.export.export(model, (x,))
        torch._inductor.aoti_compile_and_package(
            program, package_path=str(file), inductor_configs=settings
        )


def _write_openvino(model: Any, x: torch.Tensor, file: Path) -> None:
    import openvino

    try:
        converted = openvino.convert_model(model, example_input=x, input=[tuple(x.shape)])
    except RuntimeError:  # torchvision's transformers differ from one tracing to the next
        converted = openvino.convert_model(torch.export.export(model, (x,)))
    openvino.save_model(converted, file, compress_to_fp16=False)


def write_onnx(
    model: Any, x: torch.Tensor, file: Path, dims: Mapping[int, Any] | None = None
) -> None:
    """Write ``model``, with the open axes of ``x`` that ``dims`` names."""
    shapes = {"dynamic_shapes": (dims,)} if dims else {}
    torch.onnx.export(model, (x,), dynamo=True, verbose=False, **shapes).save(file)


def write_quantized(
    model: Any, x: torch.Tensor, file: Path, dims: Mapping[int, Any] | None = None
) -> None:
    """Write ``model`` in bytes, calibrated on ``x`` alone."""
    plain = file.with_suffix(".float.onnx")
    write_onnx(model, x, plain, dims)
    quantize(plain, file, [x.numpy()])
    plain.unlink()


def _open_inductor(file: Path, x: np.ndarray, threads: int) -> Callable[[], Any]:
    torch.set_num_threads(threads)
    program, tensor = torch._inductor.aoti_load_package(str(file)), torch.from_numpy(x)

    def run() -> Any:
        with torch.no_grad():
            return program(tensor).numpy()

    return run


def _open_openvino(file: Path, x: np.ndarray, threads: int) -> Callable[[], Any]:
    request = openvino_model(file, threads).create_infer_request()
    return lambda: request.infer([x])[0]


def _open_onnx(file: Path, x: np.ndarray, threads: int) -> Callable[[], Any]:
    program = fed(onnxruntime_session(str(file), threads), [x])
    return lambda: program()[0]


BASELINES: dict[str, tuple[Callable[[Any, torch.Tensor, Path], None], str, str]] = {
    "openvino": (_write_openvino, "openvino.xml", "openvino"),
    "onnxruntime": (write_onnx, "model.onnx", "onnxscript"),
    "torch.compile": (_write_inductor, "inductor.pt2", "torch"),
    f"openvino{INT8}": (write_quantized, QUANTIZED, "openvino"),
    f"onnxruntime{INT8}": (write_quantized, QUANTIZED, "onnxscript"),
}
"""How each dense runtime's model is written, to which file, and the package that it needs."""

OPENERS = {
    "openvino": _open_openvino,
    "onnxruntime": _open_onnx,
    "torch.compile": _open_inductor,
    f"openvino{INT8}": _open_openvino,
    f"onnxruntime{INT8}": _open_onnx,
}
