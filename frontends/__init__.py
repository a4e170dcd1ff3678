"""How a model comes in: nn.Module, ExportedProgram, .pt2, safetensors, ONNX."""

from __future__ import annotations

from tvm_sparse.frontends.load import load

__all__ = ["load"]
