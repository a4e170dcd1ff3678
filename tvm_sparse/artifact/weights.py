"""The weights of an artifact: their table, and their bytes as a checked stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from tvm_sparse.errors import InputError
from tvm_sparse_runtime.manifest import Weight
from tvm_sparse_runtime.spec import ALIGNMENT, ITEM_BYTES

_PIECE_BYTES = 1 << 20


def weight_table(weights: Mapping[str, np.ndarray]) -> tuple[Weight, ...]:
    """Return name, dtype, shape and offset in the weight section of each array.

    Raises
    ------
    InputError
        If a dtype is none that artifacts hold.
    """
    table, offset = [], 0
    for name, array in weights.items():
        if array.dtype.name not in ITEM_BYTES:
            raise InputError(
                f"weight {name}", f"dtype {array.dtype}", f"one of {', '.join(ITEM_BYTES)}"
            )
        offset += -offset % ALIGNMENT
        table.append(Weight(name, array.dtype.name, tuple(map(int, array.shape)), offset))
        offset += array.nbytes
    return tuple(table)


def weight_stream(weights: Mapping[str, np.ndarray]) -> Iterator[memoryview]:
    """Yield the bytes of the weight section in pieces, padding included.

    Memory-mapped arrays stay on disk but for the piece at hand.

    Raises
    ------
    InputError
        At the first value that is NaN or infinite.
    """
    offset = 0
    for name, array in weights.items():
        padding = -offset % ALIGNMENT
        if padding:
            yield memoryview(bytes(padding))
        yield from _pieces(name, array)
        offset += padding + array.nbytes


def _pieces(name: str, array: np.ndarray) -> Iterator[memoryview]:
    """Yield the bytes of one array in native byte order, refusing values that are not finite."""
    flat = np.asarray(array, array.dtype.newbyteorder("="), order="C").reshape(-1)
    step = _PIECE_BYTES // flat.itemsize
    for start in range(0, flat.size, step):
        piece = flat[start : start + step]
        finite = np.isfinite(piece)
        if not finite.all():
            position = int(np.argmin(finite))
            index = tuple(map(int, np.unravel_index(start + position, array.shape)))
            raise InputError(
                f"weight {name}",
                f"{piece[position]} at index {index}",
                "finite numbers",
                "retrain or repair the model",
            )
        yield piece.view(np.uint8).data
