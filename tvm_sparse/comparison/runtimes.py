"""The dense runtimes that a user could install instead, each given the same model and inputs."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvm_sparse.comparison.quantized import quantize
from tvm_sparse.comparison.reference import (
    Program,
    arrays,
    eager,
    fed,
    is_onnx,
    onnxruntime_session,
    torch_module,
)
from tvm_sparse.frontends.modules.effective import to_tensor
from tvm_sparse.frontends.quiet import quiet


@dataclass(frozen=True)
class Case:
    """One model with inputs: ``module`` for PyTorch, ``None`` if all there is is an ONNX file."""

    module: Any
    onnx: Path | None
    inputs: tuple[np.ndarray, ...]
    threads: int

    def onnx_file(self, folder: Path) -> Path:
        """Return the model as an ONNX file, written to ``folder`` unless there is one."""
        if self.onnx is not None:
            return self.onnx
        path = folder / "model.onnx"
        if path.exists():
            return path
        import torch

        with quiet():
            examples = tuple(map(to_tensor, self.inputs))
            program = torch.onnx.export(self.module, examples, dynamo=True, verbose=False)
            assert program is not None
            program.save(path)
        return path


Make = Callable[[Case, Path], Program]
"""Makes a program of a case. The folder is the case's: files there outlive the programs, and
serve every runtime that reads them."""


def case(
    source: Any, inputs: Sequence[np.ndarray], threads: int, weights: Path | None = None
) -> Case:
    """Return ``source`` as what other runtimes take."""
    if is_onnx(source):
        return Case(None, Path(source), tuple(inputs), threads)
    return Case(torch_module(source, weights), None, tuple(inputs), threads)


@contextlib.contextmanager
def programs(
    given: Case, names: Sequence[str], table: Mapping[str, tuple[Make, str]] | None = None
) -> Iterator[tuple[dict[str, Program], dict]]:
    """Yield the runtimes ``names`` of ``table`` ready to run ``given``, and why others are not.

    Without a table they are those of :data:`RUNTIMES`.
    """
    found: dict[str, Program] = {}
    missing: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name in names:
            make, package = (RUNTIMES if table is None else table)[name]
            if importlib.util.find_spec(package) is None:
                missing[name] = f"the package '{package}' is not installed"
                continue
            if given.module is None and name.startswith(OF_TORCH):
                missing[name] = "does not read ONNX files"
                continue
            try:
                with quiet(), contextlib.redirect_stdout(io.StringIO()):
                    program = make(given, folder)
                    program()
            except ModuleNotFoundError as error:  # of what writes its file
                missing[name] = f"the package '{error.name}' is not installed"
                continue
            except Exception as error:  # whatever another runtime cannot do is its own affair
                text = str(error).strip().splitlines() or [type(error).__name__]
                missing[name] = text[0][:200]
                continue
            found[name] = program
        yield found, missing


def _eager(given: Case, _folder: Path) -> Program:
    import torch

    torch.set_num_threads(given.threads)
    return eager(given.module, given.inputs)


def _inductor(given: Case, folder: Path) -> Program:
    """Compile ahead, weights frozen: the fastest that PyTorch offers."""
    import torch

    tensors = tuple(map(to_tensor, given.inputs))
    settings = {"freezing": True, "cpp.dynamic_threads": True}
    with torch.no_grad():
        program = torch.export.export(given.module, tensors)
        package = torch._inductor.aoti_compile_and_package(
            program, package_path=str(folder / "model.pt2"), inductor_configs=settings
        )
    compiled = torch._inductor.aoti_load_package(package)

    def run() -> list[np.ndarray]:
        with torch.inference_mode():
            return arrays(compiled(*tensors))

    return run


def _onnxruntime(given: Case, folder: Path) -> Program:
    session = onnxruntime_session(str(given.onnx_file(folder)), given.threads)
    return fed(session, given.inputs)


def _openvino(given: Case, folder: Path) -> Program:
    return _openvino_request(given.onnx_file(folder), given)


def _openvino_request(path: Path, given: Case) -> Program:
    import openvino

    options = {
        "INFERENCE_NUM_THREADS": given.threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    model = openvino.Core().compile_model(path, "CPU", options)
    request = model.create_infer_request()
    inputs = list(given.inputs)
    return lambda: [*request.infer(inputs).values()]


def _onnxruntime_int8(given: Case, folder: Path) -> Program:
    return fed(onnxruntime_session(str(_quantized(given, folder)), given.threads), given.inputs)


def _openvino_int8(given: Case, folder: Path) -> Program:
    return _openvino_request(_quantized(given, folder), given)


def _quantized(given: Case, folder: Path) -> Path:
    """Return the model with 8-bit activations and weights, calibrated on the inputs alone."""
    result = folder / "int8.onnx"
    if not result.exists():
        quantize(given.onnx_file(folder), result, given.inputs)
    return result


RUNTIMES: dict[str, tuple[Make, str]] = {
    "PyTorch eager": (_eager, "torch"),
    "torch.compile": (_inductor, "torch"),
    "onnxruntime": (_onnxruntime, "onnxruntime"),
    "OpenVINO": (_openvino, "openvino"),
    "onnxruntime int8": (_onnxruntime_int8, "onnxruntime"),
    "OpenVINO int8": (_openvino_int8, "openvino"),
}
"""How each is made, and the package that it needs."""

OF_TORCH = ("PyTorch eager", "torch.compile", "TensorRT")
"""How the names of those begin that are given PyTorch's modules."""
FLOAT = tuple(name for name in RUNTIMES if "int8" not in name)
INT8 = tuple(name for name in RUNTIMES if "int8" in name)
