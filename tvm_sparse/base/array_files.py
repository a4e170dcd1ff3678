"""Arrays in ``.npy`` files, as users give them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tvm_sparse.errors import InputError
from tvm_sparse_runtime import array_files
from tvm_sparse_runtime.errors import SparseRuntimeError


def read_array(path: Path) -> np.ndarray:
    """Return the array in the ``.npy`` file ``path``; pickled objects are refused.

    Raises
    ------
    InputError
        It is no such file, or memory does not hold what it claims.
    """
    try:
        return array_files.read_array(path)
    except SparseRuntimeError as error:
        where = f"input '{path}'"
        raise InputError(where, error.found, error.expected, error.todo) from error
