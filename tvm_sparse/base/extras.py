"""Packages that only some commands need: extras of the distribution."""

from __future__ import annotations

import importlib.util

from tvm_sparse.errors import InputError

_MODULES = {
    "demo": ("sklearn",),
    "emulator": ("tvm_sparse_emulator",),
    "onnx": ("onnx",),
    "onnxruntime": ("onnx", "onnxruntime"),
    "quantize": ("torchao",),
    "report": ("jinja2",),
    "rpc": ("cloudpickle", "psutil", "tornado"),
    "tune": ("xgboost",),
}
"""The modules of each extra that all have to be found: others may bring some of them."""


def require(extra: str, purpose: str) -> None:
    """Refuse to go on without the packages of ``extra``, which ``purpose`` needs.

    Raises
    ------
    InputError
        Says how to install them.
    """
    for module in _MODULES[extra]:
        if importlib.util.find_spec(module) is None:
            raise InputError(
                purpose, f"{module} is not installed", todo=f"pip install 'tvm-sparse[{extra}]'"
            )
