"""Artifacts: a directory with one library (code, mapped weights) and a manifest."""

from tvm_sparse.artifact.cpu import required_cpu_features
from tvm_sparse.artifact.export import export

__all__ = ["export", "required_cpu_features"]
