"""The C interface from Python: what C and C++ programs call, in this process."""

from __future__ import annotations

import ctypes
import functools
import os
from pathlib import Path
from typing import Any

from tvm_sparse_runtime import config, engine

OK, BAD_ARTIFACT, BAD_TENSOR, FAILED, BAD_ARGUMENT = range(5)
Handle = ctypes.c_void_p


class Options(ctypes.Structure):
    """``tvm_sparse_options``."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("verify", ctypes.c_int),
        ("copy", ctypes.c_int),
        ("threads", ctypes.c_int),
    )


class Tensor(ctypes.Structure):
    """``tvm_sparse_tensor``."""

    _fields_ = (
        ("dtype", ctypes.c_char_p),
        ("ndim", ctypes.c_int32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32),
    )


class Spec(ctypes.Structure):
    """``tvm_sparse_spec``."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_char_p),
        ("ndim", ctypes.c_int32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("symbols", ctypes.POINTER(ctypes.c_char_p)),
    )


@functools.cache
def library() -> Any:
    """Return the C library, beside the copies of TVM's that Python has."""
    engine.ffi()
    found = ctypes.CDLL(str(config.library()))
    found.tvm_sparse_last_error.restype = ctypes.c_char_p
    found.tvm_sparse_version.restype = ctypes.c_char_p
    found.tvm_sparse_default_options.restype = Options
    found.tvm_sparse_outputs_count.restype = ctypes.c_size_t
    for name, result in (("input", Spec), ("output", Spec), ("outputs_get", Tensor)):
        function = getattr(found, f"tvm_sparse_{name}")
        function.restype, function.argtypes = ctypes.POINTER(result), [Handle, ctypes.c_size_t]
    found.tvm_sparse_run.argtypes = [
        Handle,
        ctypes.POINTER(Tensor),
        ctypes.c_size_t,
        ctypes.POINTER(Handle),
    ]
    for name in ("close", "outputs_free", "outputs_count", "num_inputs", "num_outputs"):
        getattr(found, f"tvm_sparse_{name}").argtypes = [Handle]
    return found


def last_error() -> str:
    """Return what was wrong in this thread's last call that failed."""
    return str(library().tvm_sparse_last_error().decode())


def opened(path: Path, *, verify: bool = True, copy: bool = False) -> tuple[int, Handle]:
    """Return the status of ``tvm_sparse_open`` and the handle."""
    options = library().tvm_sparse_default_options()
    options.verify, options.copy, options.threads = verify, copy, 1
    handle = Handle()
    status = library().tvm_sparse_open(
        os.fsencode(path), ctypes.byref(options), ctypes.byref(handle)
    )
    return status, handle


def environment() -> dict[str, str]:
    """Return the environment of a program that uses the C library.

    TVM's wheels stand beside ours in a plain installation; here they may stand elsewhere.
    """
    ffi = Path(engine.ffi().libinfo.find_libtvm_ffi()).parent
    places = f"{ffi}:{engine.runtime_library().parent}"
    return {**os.environ, "LD_LIBRARY_PATH": places, "TVM_NUM_THREADS": "1"}
