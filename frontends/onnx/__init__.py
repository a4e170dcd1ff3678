"""ONNX files as models: each operator is written in torch, and torch's importer does the rest."""

from __future__ import annotations

from tvm_sparse.frontends.onnx.model import load_onnx
from tvm_sparse.frontends.onnx.reader import read_onnx

__all__ = ["load_onnx", "read_onnx"]
