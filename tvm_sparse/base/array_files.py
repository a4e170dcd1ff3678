"""Arrays in ``.npy`` and ``.npz`` files, as users give them."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np

from tvm_sparse.base.words import aside, said
from tvm_sparse.errors import InputError
from tvm_sparse_runtime import array_files
from tvm_sparse_runtime.errors import SparseRuntimeError


def read_array(path: Path) -> np.ndarray:
    """Return the array in the ``.npy`` file ``path``; pickled objects are refused.

    NumPy reads an array in bfloat16 as two bytes of any kind; here it is in bfloat16 again.

    Raises
    ------
    InputError
        It is no such file, or memory does not hold what it claims.
    """
    try:
        return _known(array_files.read_array(path))
    except SparseRuntimeError as error:
        where = f"input '{path}'"
        raise InputError(where, error.found, error.expected, error.todo) from error


def read_arrays(path: Path) -> np.ndarray | dict[str, np.ndarray]:
    """Return the array in a ``.npy`` file, or those in an ``.npz`` file by their names.

    Raises
    ------
    InputError
        It is no such file, or holds what is no array.
    """
    if path.suffix != ".npz" or not path.is_file():
        return read_array(path)
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {name: _known(array) for name, array in arrays.items()}
    except Exception as error:  # of NumPy's, zipfile's, the tokenizer's: each has types of its own
        found = f"cannot be read{aside(said(error))}"
        raise InputError(f"input '{path}'", found, "an .npz file", "use numpy.savez") from error


def _known(array: np.ndarray) -> np.ndarray:
    return array.view(ml_dtypes.bfloat16) if array.dtype == np.dtype("V2") else array
