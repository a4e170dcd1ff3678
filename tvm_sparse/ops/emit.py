"""Pieces that several operator definitions emit or compute in the same way."""

from __future__ import annotations

from typing import Any


def unravel(position: Any, extents: tuple[Any, ...]) -> list[Any]:
    """Return the row-major index of ``position`` in ``extents``; the inverse of ``flat``."""
    index: list[Any] = []
    for extent in reversed(extents[1:]):
        index.insert(0, position % extent)
        position = position // extent
    return [position, *index] if extents else []


def whole(buffer: Any) -> Any:
    """Return all of ``buffer``, for ``T.reads``."""
    return buffer[tuple(slice(0, extent) for extent in buffer.shape)]
