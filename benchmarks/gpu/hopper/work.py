"""Which thread block computes what: items, longest first, to the block with the least work."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from typing import NamedTuple

BESIDES = 2
"""What an item costs besides its steps, in steps: the ring runs empty, sums are written."""


class Item(NamedTuple):
    """A tile of y: which features and rows, and its pieces of packed weights."""

    feature_tile: int
    row_tile: int
    first: int
    pieces: int


class Work(NamedTuple):
    """``items``, or None: all alike and in order. ``first_items`` of each unit, or None: one each.

    A unit is a thread block, or a cluster of them.
    """

    items: list[Item] | None
    first_items: list[int] | None
    units: int


def shared_out(counts: Sequence[int], row_tiles: int, units: int, parts: int) -> Work:
    """Return the work of tiles with ``counts`` of pieces, for ``units`` that are resident.

    Blocks that share an item (``parts``) have one each: the ring holds their sums at its end.
    """
    alone = parts > 1 or len(counts) * row_tiles <= units
    if alone and len(set(counts)) == 1:
        return Work(None, None, len(counts) * row_tiles)
    first = [0, *itertools.accumulate(counts)]
    order = sorted(range(len(counts)), key=lambda tile: -counts[tile])
    items = [Item(t, row, first[t], counts[t]) for t in order for row in range(row_tiles)]
    if alone:
        return Work(items, None, len(items))
    loads = [(0, unit) for unit in range(units)]
    lists: list[list[Item]] = [[] for _ in range(units)]
    for item in items:
        load, unit = heapq.heappop(loads)
        lists[unit].append(item)
        heapq.heappush(loads, (load + item.pieces + BESIDES, unit))
    begins = [0, *itertools.accumulate(map(len, lists))]
    return Work([item for part in lists for item in part], begins, units)
