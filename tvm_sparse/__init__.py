"""Compile pruned PyTorch models with Apache TVM into fast, deployable libraries."""

from __future__ import annotations

import os
from importlib.metadata import version
from typing import Any

# tvm_ffi would import torch and build an extension with g++ in every process, workers included.
os.environ.setdefault("TVM_FFI_DISABLE_TORCH_C_DLPACK", "1")

__version__ = version("tvm-sparse")

_PUBLIC = {
    "Config": "tvm_sparse.base.config",
    "Library": "tvm_sparse.program.library",
    "OnnxModule": "tvm_sparse.frontends.onnx.trainable",
    "compile": "tvm_sparse.program.compiler",
    "compile_for": "tvm_sparse.program.compile_for",
    "explain": "tvm_sparse.dynamo.report",
    "partitions": "tvm_sparse.dynamo.report",
    "inspect": "tvm_sparse.inspection",
    "load": "tvm_sparse.frontends.load",
    "method_for": "tvm_sparse.planning.suited",
    "plan": "tvm_sparse.planning.api",
    "relax_pipeline": "tvm_sparse.program.relax_pipeline",
    "quantize": "tvm_sparse.quantization",
    "quantize_onnx": "tvm_sparse.quantization.onnx_models.function",
    "tune": "tvm_sparse.program.tune",
    "SparseError": "tvm_sparse.errors",
    "InputError": "tvm_sparse.errors",
    "UnsupportedError": "tvm_sparse.errors",
    "ArtifactError": "tvm_sparse.errors",
}

__all__ = [
    "ArtifactError",
    "Config",
    "InputError",
    "Library",
    "OnnxModule",
    "SparseError",
    "UnsupportedError",
    "__version__",
    "compile",
    "compile_for",
    "inspect",
    "load",
    "method_for",
    "partitions",
    "plan",
    "prune",
    "quantize",
    "quantize_onnx",
    "relax_pipeline",
    "tune",
]


def __getattr__(name: str) -> Any:
    """Import public names when they are first used: the command line starts fast that way."""
    import importlib

    from tvm_sparse.base.interrupts import whole_imports

    if name != "prune" and name not in _PUBLIC:
        raise AttributeError(f"module 'tvm_sparse' has no attribute '{name}'")
    with whole_imports():
        if name == "prune":
            return importlib.import_module("tvm_sparse.pruning")
        return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
