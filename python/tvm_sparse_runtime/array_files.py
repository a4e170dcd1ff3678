"""Arrays in ``.npy`` files, as users give them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .errors import SparseRuntimeError, shown


def read_array(path: str | Path) -> np.ndarray:
    """Return the array in the ``.npy`` file ``path``; never runs code from the file.

    Raises
    ------
    SparseRuntimeError
        It is no such file, or memory does not hold what it claims.
    """
    if not Path(path).is_file():
        found = "no plain file" if Path(path).exists() else "no such file"
        raise SparseRuntimeError(str(path), found, "a .npy file")
    try:
        with Path(path).open("rb") as file:  # NumPy leaves those open that it cannot read
            array = np.load(file, allow_pickle=False)
    except Exception as error:  # of NumPy's, zipfile's, the tokenizer's: each has types of its own
        found = f"cannot be read ({shown(str(error) or type(error).__name__, 120)})"
        raise SparseRuntimeError(str(path), found, "a .npy file", "use numpy.save") from error
    if not isinstance(array, np.ndarray):
        array.close()
        raise SparseRuntimeError(str(path), "holds several arrays", "a .npy file with one")
    return array


def write_array(path: str | Path, array: np.ndarray) -> None:
    """Write ``array`` to ``path``.

    Raises
    ------
    SparseRuntimeError
        It cannot be written.
    """
    try:
        with Path(path).open("wb") as file:
            np.save(file, array)
    except OSError as error:
        found = f"cannot be written ({error.strerror or error})"
        raise SparseRuntimeError(str(path), found, "a place for a file") from error
