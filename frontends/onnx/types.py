"""Element types and arrays between ONNX, NumPy and torch."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch

from tvm_sparse.errors import InputError, UnsupportedError
from tvm_sparse.frontends.modules import effective

DTYPES = {
    "FLOAT": torch.float32,
    "FLOAT16": torch.float16,
    "BFLOAT16": torch.bfloat16,
    "DOUBLE": torch.float64,
    "INT8": torch.int8,
    "INT16": torch.int16,
    "INT32": torch.int32,
    "INT64": torch.int64,
    "UINT8": torch.uint8,
    "UINT16": torch.uint16,
    "UINT32": torch.uint32,
    "UINT64": torch.uint64,
    "BOOL": torch.bool,
}
"""torch's element type by ONNX's name; the others are refused."""


def dtype_of(element: int, place: str) -> torch.dtype:
    """Return torch's type for the ONNX element type ``element`` of what ``place`` names.

    Raises
    ------
    UnsupportedError
        It is a string, complex, or a number of 8 bits or less that has no arithmetic here.
    """
    import onnx

    known = onnx.TensorProto.DataType.values()
    name = onnx.TensorProto.DataType.Name(element) if element in known else f"number {element}"
    if name not in DTYPES:
        raise UnsupportedError(
            place,
            f"has elements of type {name}",
            ", ".join(DTYPES),
            "cast to one of these in the model",
        )
    return DTYPES[name]


def element_of(dtype: torch.dtype) -> int:
    """Return the number of ONNX's element type for ``dtype``."""
    import onnx

    (name,) = [name for name, value in DTYPES.items() if value is dtype]
    return int(onnx.TensorProto.DataType.Value(name))


def to_array(tensor: Any, place: str) -> np.ndarray:
    """Return the values of a ``TensorProto``.

    Raises
    ------
    UnsupportedError
        Its elements have no torch type.
    InputError
        It does not have as many elements as its shape says.
    """
    dtype_of(tensor.data_type, place)
    return read_array(tensor, place)


def read_array(tensor: Any, place: str) -> np.ndarray:
    """Return the values of a ``TensorProto`` of any type that NumPy has.

    Raises
    ------
    InputError
        It does not have as many elements as its shape says.
    """
    from onnx import numpy_helper

    try:
        return numpy_helper.to_array(tensor)
    except (TypeError, ValueError) as error:
        raise InputError(
            place, f"is damaged ({error})", f"a tensor of shape {list(tensor.dims)}"
        ) from error


def to_tensor(array: np.ndarray) -> torch.Tensor:
    """Return ``array`` as a tensor on the same memory, which nobody may write to."""
    array = np.ascontiguousarray(array).reshape(array.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the memory of a file's weights is read-only
        return effective.to_tensor(array)
