"""Tensors of onnxruntime: arrays with its methods, all in host memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvm_sparse.compat.onnxruntime.described import type_of
from tvm_sparse.errors import InputError


class OrtValue:
    """A tensor in host memory; :meth:`numpy` shares its memory."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    @staticmethod
    def ortvalue_from_numpy(
        numpy_obj: np.ndarray, device_type: str = "cpu", device_id: int = 0
    ) -> OrtValue:
        """Return ``numpy_obj`` as a value on its memory."""
        check_host(device_type)
        return OrtValue(np.asarray(numpy_obj))

    @staticmethod
    def ortvalue_from_shape_and_type(
        shape: Sequence[int],
        element_type: Any = np.float32,
        device_type: str = "cpu",
        device_id: int = 0,
    ) -> OrtValue:
        """Return a value of zeros."""
        check_host(device_type)
        return OrtValue(np.zeros(tuple(shape), np.dtype(element_type)))

    def numpy(self) -> np.ndarray:
        """Return the array."""
        return self._array

    def update_inplace(self, np_arr: np.ndarray) -> None:
        """Give the value other numbers."""
        self._array[...] = np_arr

    def shape(self) -> list[int]:
        """Return the extents."""
        return list(self._array.shape)

    def element_type(self) -> int:
        """Return ONNX's number of the type."""
        from onnx import helper

        return int(helper.np_dtype_to_tensor_dtype(self._array.dtype))

    def data_type(self) -> str:
        """Return ONNX's name of the type."""
        return type_of(str(self._array.dtype))

    def data_ptr(self) -> int:
        """Return where the memory begins."""
        return int(self._array.ctypes.data)

    def device_name(self) -> str:
        """Return ``"cpu"``."""
        return "cpu"

    def is_tensor(self) -> bool:
        """Return True: there are no sequences."""
        return True

    def has_value(self) -> bool:
        """Return True."""
        return True


def check_host(device: str) -> None:
    """Refuse a device that sessions do not run on."""
    if device.lower() not in ("cpu", "cuda_pinned"):
        raise InputError("device", f"is '{device}'", "cpu", "leave it out")


def array_of(value: Any) -> np.ndarray:
    """Return the array of a value of ours or of onnxruntime's, or of what is like an array."""
    return np.asarray(value.numpy() if hasattr(value, "has_value") else value)


def at_address(pointer: int, shape: Sequence[int], dtype: Any) -> np.ndarray:
    """Return an array on memory that somebody else owns."""
    import ctypes

    wanted = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * wanted.itemsize
    raw = (ctypes.c_uint8 * size).from_address(pointer)
    return np.frombuffer(raw, wanted).reshape(tuple(shape))
