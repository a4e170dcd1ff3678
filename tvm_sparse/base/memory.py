"""Weights in memory: read and wrapped where they lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm

from tvm_sparse_runtime import engine
from tvm_sparse_runtime.spec import ALIGNMENT

SHARED_BYTES = 4096
"""Smaller arrays are copied: such constants may stay in the code, which wants them aligned."""


def tensor_of(array: np.ndarray) -> Any:
    """Return ``array`` as a tensor for the compiler, in the same memory unless it is small.

    The tensor keeps ``array`` alive; neither may be written to afterwards.
    """
    array = np.asarray(array, order="C")  # which, other than ascontiguousarray, adds no axis
    if array.nbytes < SHARED_BYTES or array.dtype.kind not in "iufb":
        return tvm.runtime.tensor(array)  # DLPack of NumPy has no bfloat16
    return engine.tensor(array)


def argument_of(array: np.ndarray) -> Any:
    """Return ``array`` as a tensor that kernels can read, in the same memory if it is aligned."""
    array = np.asarray(array, order="C")
    if array.ctypes.data % ALIGNMENT:
        return tvm.runtime.tensor(array)
    return tensor_of(array)


def array_of(const: Any) -> np.ndarray:
    """Return the value of a constant without a copy where NumPy can read it; do not write to it."""
    array = _read(const.value)
    return const.value.numpy() if array is None else array


def owned(const: Any) -> np.ndarray:
    """Return a copy of the value of a constant, aligned as kernels need it."""
    array = _read(const.value)
    copy = None if array is None else _read(tvm.runtime.tensor(array))
    return const.value.numpy() if copy is None else copy


def _read(tensor: Any) -> np.ndarray | None:
    """Return ``tensor`` as an array in the same memory; None where NumPy lacks its type."""
    try:
        return np.from_dlpack(tensor)
    except (BufferError, RuntimeError):  # bfloat16 and narrower types; RuntimeError until NumPy 2.5
        return None
