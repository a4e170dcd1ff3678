"""The tile of products of two activations: that of a dense layer with all items' features."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm.target import Target

from tvm_sparse.base.numerics import Numerics, bits_of
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda.multiply import EDGE
from tvm_sparse.ops.cuda.tile import ThreadBlockTile, round_up
from tvm_sparse.selection.cuda.chip import chip
from tvm_sparse.selection.cuda.demand import memory_and, seconds
from tvm_sparse.selection.cuda.tile_choice import FEATURES, choose_tile
from tvm_sparse.selection.cuda.tile_demand import Staging, tile_demand

FILLED = 1.15
"""Features of whole tiles over those that are filled up least, at most."""

MOST_BLOCKS = 65535
"""Thread blocks along all but the first axis of a grid, at most."""

UNKNOWN = 64
"""What a symbolic extent counts as."""


def product_tile(
    size: Sequence[Any], lead: Sequence[Any], numerics: Numerics, target: Target
) -> ThreadBlockTile | None:
    """Return the tile of a product of ``size`` (rows, features, columns) for each item of ``lead``.

    None: it has too many rows for one grid.
    """
    rows, features, columns = (e if isinstance(e, int) else UNKNOWN for e in size)
    items = math.prod(e for e in lead if isinstance(e, int))
    c = Contraction((rows,), columns, features * items, numerics=numerics)
    most = FILLED * round_up(features, EDGE)
    widths = [width for width in FEATURES if round_up(features, width) <= most]
    tile = choose_tile(c, Staging(columns), chip(target), features=widths, whole=True)
    return tile if rows <= MOST_BLOCKS * tile.rows else None


def bytes_pay(
    size: Sequence[int],
    items: int,
    both: tuple[Numerics, Numerics],
    more: Sequence[int],
    target: Target,
) -> bool:
    """Whether a product of bytes is modelled faster, by the chip's margin, than one of floats.

    ``both`` are their numerics, with the result that is stored. Before the product of bytes, a
    kernel each moves as many bytes as ``more`` has: it adds up an operand's bytes, or turns them.
    """
    in_bytes, in_floats = (_seconds(size, items, numerics, target) for numerics in both)
    in_bytes += sum(memory_and(0, moved, chip(target)) for moved in more)
    return chip(target).margin * in_bytes < in_floats


def _seconds(size: Sequence[int], items: int, numerics: Numerics, target: Target) -> float:
    """Return the modelled time of a product of ``items``; without a tile it is endless."""
    rows, features, columns = size
    tile = product_tile(size, (items,), numerics, target)
    if tile is None:
        return math.inf
    moved = [
        (numerics.activation, rows * columns),
        (numerics.weight, features * columns),
        (numerics.output, rows * features),
    ]
    demand = tile_demand(
        (rows, features * items),
        Staging(columns),
        tile,
        numerics.activation,
        chip(target),
        nbytes=items * sum(bits_of(dtype) // 8 * count for dtype, count in moved),
    )
    return seconds(demand, chip(target))
