"""The one lazy loader of the native library (detector scans and packers)."""

from __future__ import annotations

import functools
from typing import Any


@functools.cache
def library() -> Any:
    """Return the tvm-ffi module built from ``native/``; loaded on first use, once a process."""
    import tvm_ffi

    return tvm_ffi.libinfo.load_lib_module("tvm-sparse", "tvm_sparse_native")
