"""The interface of onnxruntime: ``from tvm_sparse.compat import onnxruntime``.

Sessions run what this package compiled: an artifact, or an ONNX file that is compiled when it is
first used, and kept in the user's cache directory. :func:`install` lets other packages have it.
"""

from tvm_sparse.compat.onnxruntime.binding import IOBinding
from tvm_sparse.compat.onnxruntime.described import ModelMetadata, NodeArg
from tvm_sparse.compat.onnxruntime.installed import (
    __version__,
    get_all_providers,
    get_available_providers,
    get_device,
    install,
    set_default_logger_severity,
    set_default_logger_verbosity,
    uninstall,
)
from tvm_sparse.compat.onnxruntime.options import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    RunOptions,
    SessionOptions,
)
from tvm_sparse.compat.onnxruntime.session import InferenceSession
from tvm_sparse.compat.onnxruntime.values import OrtValue

__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "OrtValue",
    "RunOptions",
    "SessionOptions",
    "__version__",
    "get_all_providers",
    "get_available_providers",
    "get_device",
    "install",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "uninstall",
]
