"""Arrays in ``.npy`` files, as users give them. NumPy has no bfloat16: float32 stands for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import engine
from .errors import SparseRuntimeError, shown
from .spec import ITEM_BYTES, TensorSpec

BFLOAT16 = "bfloat16"


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


def arguments(
    arrays: Sequence[np.ndarray], inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> list[Any]:
    """Return what a program is called with for ``arrays``; :func:`numbers` reads its outputs.

    An input in bfloat16 takes the bits that NumPy wrote of such an array (its ``V2``), or float32,
    which is rounded.
    """
    narrow = any(spec.dtype == BFLOAT16 for spec in (*inputs, *outputs))
    if not narrow or len(arrays) != len(inputs):
        return [*arrays]
    return [_argument(array, spec.dtype) for array, spec in zip(arrays, inputs)]


def is_rounded(array: np.ndarray, spec: TensorSpec) -> bool:
    """Whether :func:`arguments` rounds ``array``."""
    return spec.dtype == BFLOAT16 and array.dtype == np.float32


def numbers(output: Any) -> np.ndarray:
    """Return an output as an array, in float32 where it is bfloat16."""
    if str(output.dtype) != BFLOAT16:
        return output if isinstance(output, np.ndarray) else np.from_dlpack(output)
    bits: np.ndarray
    if isinstance(output, np.ndarray):
        bits = output.view(np.uint16)
    else:
        bits = np.from_dlpack(engine.view(output, output.shape, "uint16"))
    return np.asarray(bits.astype(np.uint32) << 16).view(np.float32)


def _argument(array: np.ndarray, dtype: str) -> Any:
    """Return a tensor for an input of ``dtype``, or what a call will refuse, as it is."""
    own = np.asarray(array, order="C")
    if dtype == BFLOAT16 and own.dtype.kind == "V" and own.itemsize == 2:
        return engine.view(engine.tensor(own.view(np.uint16)), own.shape, dtype)
    if dtype == BFLOAT16 and own.dtype == np.float32:
        return engine.view(engine.tensor(_rounded(own)), own.shape, dtype)
    known = own.dtype.name in ITEM_BYTES and own.dtype.isnative
    return engine.tensor(own) if known else array


def _rounded(array: np.ndarray) -> np.ndarray:
    """Return the bits of the nearest bfloat16 of each element, the even one of two."""
    bits = np.asarray(array, np.float32).view(np.uint32)
    nearest = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    quiet = (bits >> 16) | 0x40
    return np.asarray(np.where(np.isnan(array), quiet, nearest), np.uint16)


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
