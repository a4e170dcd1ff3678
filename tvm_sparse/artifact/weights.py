"""The weights of an artifact: their table, and their bytes as a checked stream."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

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


def shared_section(
    first: Mapping[str, np.ndarray], others: Sequence[Mapping[str, np.ndarray]]
) -> tuple[dict[str, np.ndarray], list[tuple[Weight, ...]]]:
    """Return the arrays of one section for several programs, and the table of each program.

    Arrays of other programs that equal one in the section are not stored again.
    """
    section = dict(first)
    places = {_content(array): name for name, array in reversed(list(first.items()))}
    for number, weights in enumerate(others):
        for name, array in weights.items():
            place = places.setdefault(_content(array), f"{number} {name}")
            section.setdefault(place, array)
    offsets = {weight.name: weight.offset for weight in weight_table(section)}
    tables = [weight_table(first)]
    for weights in others:
        found = weight_table(weights)
        held = [offsets[places[_content(weights[weight.name])]] for weight in found]
        tables.append(tuple(replace(w, offset=at) for w, at in zip(found, held, strict=True)))
    return section, tables


def _content(array: np.ndarray) -> tuple[str, tuple[int, ...], str]:
    """Return what equal arrays have in common, and others have not."""
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return array.dtype.name, array.shape, hashlib.sha256(data.data).hexdigest()


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
