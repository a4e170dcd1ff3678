"""Arrays in ``.npy`` files, as users give them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tvm_sparse.errors import InputError


def read_array(path: Path) -> np.ndarray:
    """Return the array in the ``.npy`` file ``path``; pickled objects are refused."""
    if not path.is_file():
        raise InputError(f"input '{path}'", "no such file", "a .npy file")
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise InputError(
            f"input '{path}'", f"cannot be read ({error})", "a .npy file", "use numpy.save"
        ) from error
    if not isinstance(array, np.ndarray):
        raise InputError(f"input '{path}'", "holds several arrays", "a .npy file with one")
    return array
