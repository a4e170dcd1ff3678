"""What formats share: checked matrices, element sizes, the smallest index types."""

from __future__ import annotations

import math
from collections.abc import Iterator

import ml_dtypes  # noqa: F401 - NumPy then knows them
import numpy as np
import numpy.typing as npt

from tvm_sparse.errors import InputError

ALIGNMENT = 64
"""Bytes; addresses of tensors that kernels read are multiples of it."""

CHUNK_BYTES = 2**24


def finite_matrix(matrix: np.ndarray, shape: tuple[int, int], where: str) -> np.ndarray:
    """Return ``matrix`` contiguous and writable; refuse other shapes and values not finite."""
    if matrix.shape != shape:
        raise InputError(where, f"a matrix of shape {matrix.shape}", f"{shape}")
    if matrix.dtype.kind not in "iub":
        for first, part in chunks(matrix):
            finite = np.isfinite(part)
            if not finite.all():
                row, col = (int(i) for i in np.argwhere(~finite)[0])
                raise InputError(
                    where, f"{part[row, col]} at row {first + row}, column {col}", "finite values"
                )
    # Read-only arrays cannot be handed to the native library.
    return np.require(matrix, requirements=["C", "W"])


def chunks(array: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the first row and the rows of each part of ``array``, of about :data:`CHUNK_BYTES`.

    What is computed of a part of a weight needs no memory for one of the whole.
    """
    count = max(1, CHUNK_BYTES * len(array) // max(1, array.nbytes))
    for first in range(0, len(array), count):
        yield first, array[first : first + count]


def aligned_empty(shape: tuple[int, ...], dtype: npt.DTypeLike) -> np.ndarray:
    """Return a new array at an address that kernels can use: no copy is needed to run on it."""
    size = np.dtype(dtype).itemsize * math.prod(shape)
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size].view(dtype).reshape(shape)


def itemsize(dtype: npt.DTypeLike) -> int:
    """Return the bytes of a value; also of bfloat16 and fp8, which NumPy alone does not know."""
    return np.dtype(dtype).itemsize


def index_dtype(choices: int) -> np.dtype:
    """Return the smallest type for indices below ``choices``: uint8, uint16 or int32."""
    return np.dtype(np.uint8 if choices <= 2**8 else np.uint16 if choices <= 2**16 else np.int32)
