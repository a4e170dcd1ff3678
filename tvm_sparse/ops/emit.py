"""Pieces that several operator definitions emit or compute in the same way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import s_tir, tirx
from tvm.script.ir_builder import tirx as T

from tvm_sparse.ops.marks import int64

BLOCK = (
    *("iter_vars", "reads", "writes", "name_hint", "body", "init"),
    *("alloc_buffers", "match_buffers", "annotations"),
)
"""Fields of a block, in the order in which one is made of them."""


def changed_block(block: s_tir.SBlock, **fields: Any) -> s_tir.SBlock:
    """Return ``block`` with other ``fields``."""
    return s_tir.SBlock(*(fields.get(name, getattr(block, name)) for name in BLOCK))


def unravel(position: Any, extents: tuple[Any, ...]) -> list[Any]:
    """Return the row-major index of ``position`` in ``extents``; the inverse of ``flat``."""
    index: list[Any] = []
    for extent in reversed(extents[1:]):
        index.insert(0, position % extent)
        position = position // extent
    return [position, *index] if extents else []


def whole(buffer: tirx.Buffer) -> Any:
    """Return all of ``buffer``, for ``T.reads``."""
    return buffer[tuple(slice(0, extent) for extent in buffer.shape)]


def first_column(number: Any, size: int, columns: int) -> Any:
    """Return the first of ``columns`` that a window of ``size`` has; the last one ends with them.

    The windows of fewer columns begin at the first.
    """
    first = number * size
    if columns % size:
        return tirx.min(first, tirx.const(max(0, columns - size), "int64"))
    return first


def seen(buffer: Any, shape: Sequence[Any]) -> Any:
    """Return a buffer on the memory of another one, with other axes; inside of a loop."""
    declared = T.decl_buffer(int64(tuple(shape)), str(buffer.dtype), data=buffer.data)
    return T.buffer_proxy(declared)


def lanes_from(first: Any, lanes: int) -> Any:
    """Return the index of ``lanes`` neighbours; of one, a plain index."""
    return tirx.Ramp(first, 1, lanes) if lanes > 1 else first


def spread(value: Any, lanes: int) -> Any:
    """Return ``value`` in each of ``lanes``."""
    return tirx.Broadcast(value, lanes) if lanes > 1 else value


def filled(value: float, dtype: str, lanes: int) -> Any:
    """Return a constant in each of ``lanes``."""
    return spread(tirx.const(value, dtype), lanes)
