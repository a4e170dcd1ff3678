"""The one lazy loader of the native library (scans and packers), and how it sees arrays."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tvm_sparse.errors import InputError

_FLOATS = {
    "float8_e4m3fn": (0x7F, 0x7F),
    "float8_e5m2": (0x7F, 0x7C),
    "float16": (0x7FFF, 0x7C00),
    "bfloat16": (0x7FFF, 0x7F80),
    "float32": (0x7FFFFFFF, 0x7F800000),
    "float64": (2**63 - 1, 0x7FF << 52),
}


@functools.cache
def library() -> Any:
    """Return the tvm-ffi module built from ``native/``; loaded on first use, once a process."""
    import tvm_ffi

    return tvm_ffi.libinfo.load_lib_module("tvm-sparse", "tvm_sparse_native")


def as_unsigned(array: np.ndarray) -> np.ndarray:
    """Return the bits of ``array`` as unsigned integers, whatever type its values have."""
    return array.view(f"u{array.dtype.itemsize}")


def bit_masks(dtype: np.dtype, where: str) -> tuple[int, int]:
    """Return the bits that make a value nonzero, and those that are all ones in NaN and infinity.

    The second mask is 0 for integers. Other types than floats of 8 to 64 bits (bf16 too),
    integers and bool are refused: in some of fp8, the sign alone is no zero.
    """
    if dtype.name in _FLOATS:
        return _FLOATS[dtype.name]
    if dtype.kind in "iub":
        return -1, 0
    raise InputError(where, f"dtype {dtype.name}", "a float, an integer or bool")
