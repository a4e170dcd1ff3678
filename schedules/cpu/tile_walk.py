"""How a contraction on a CPU is walked by default: its register tile, the order of tiles."""

from __future__ import annotations

import math

from tvm import s_tir

from tvm_sparse.base.numerics import bits_of
from tvm_sparse.machine.record import Machine
from tvm_sparse.machine.vector import LANES
from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.cpu.fetch_ahead import LINE
from tvm_sparse.schedules.cpu.nest import Nest
from tvm_sparse.schedules.cpu.order import whole_rows
from tvm_sparse.schedules.cpu.register_tile import RegisterTile, default_tile

NARROW_WEIGHTS = 8 << 10
"""Bytes of weights that stay in the first cache while all rows pass."""

ROW_VECTORS = 4
"""Most vectors of a single row of a dense layer: each is a stream of weights, read once."""

CACHE_SHARE = 1 / 2
"""Part of the second-level cache that weights may fill while row tiles pass."""


def default_walk(
    sch: s_tir.Schedule, nest: Nest, extents: list[list[int]], machine: Machine
) -> tuple[RegisterTile, int]:
    """Return the register tile, and how many feature tiles one of rows meets (see ``_chunk``).

    Weights that do not stay in the first cache in the meantime are loaded from beyond, with their
    indices: those of floats are packed into words, but each byte has one of its own.
    """
    rows, blocks = extents[0][nest.axis], b.extent(sch, nest.block) or 1
    sums = bits_of(str(sch.get(nest.anchor).writes[0].source.ty.dtype))
    widest = min(nest.widest, ROW_VECTORS) if (rows, nest.operator) == (1, "dense") else nest.widest
    first, *others = (read.source for read in sch.get(nest.anchor).reads)
    arrays = others or [first]  # a tensor may be multiplied by itself
    weights = sum(map(b.nbytes, arrays)) / blocks
    streams = nest.operator != "matmul" and b.nbytes(first) <= machine.caches.second
    values, *words = map(b.elements, arrays)
    indices = words[0] / values if nest.operator == "balanced" and words[0] * 2 >= values else 0
    for loads in (1, 1 + indices):
        tile = default_tile(
            rows,
            blocks,
            nest.share,
            most=machine.sums_of(sums),
            widest=widest,
            loads=loads,
            whole=nest.parts,
        )
        room = 0 if streams else machine.caches.second * CACHE_SHARE
        chunk = _chunk(nest, blocks, extents, tile, weights, room)
        if chunk * tile.vectors * weights <= machine.caches.weights:
            break
    return tile, chunk


def _chunk(  # noqa: PLR0917 (what a walk depends on)
    nest: Nest,
    blocks: int,
    extents: list[list[int]],
    tile: RegisterTile,
    weights: float,
    cache: float,
) -> int:
    """Return how many feature tiles a row tile should meet before the next row tile (or 1).

    ``extents`` are those of the leading axes and of the reduction, ``weights`` the bytes of a block
    of features, ``cache`` those that weights may fill: none where the second cache holds all
    activations, since these may then pass once a feature tile (see ``FetchAhead``). Outputs are
    written more at a time the more features follow one another, while the weights of these features
    pass once a row tile. That pays where four things hold. Weights are small for their outputs:
    sparse, or many features of few columns. Rows are many. The reduction is long enough to hide the
    weights' way from the second cache. They fit it: beyond, other cores' traffic slows them. A
    dense layer of 197 x 768 to 3072 took twice as long with 9 MB once a row tile. Pieces of bytes
    that are shorter than a cache line are written beside one another, where that costs little: 176
    bytes a pixel, 16 in each of 11 passes, took two threads 5 us, in one pass 3. Products of two
    activations: see ``whole_rows``.
    """
    lead, reduce = extents
    if nest.operator == "matmul":
        streams = whole_rows(lead[nest.axis], nest.features, math.prod(reduce), cache)
        return -(-blocks // tile.vectors) if streams else 1
    tiles = blocks // tile.vectors
    if math.prod(lead) < 8 * tile.rows:
        return 1
    steps = math.prod(reduce)
    sparse = nest.operator == "balanced" and math.prod(reduce[:-1]) >= 8
    wide = nest.operator == "dense" and LANES * blocks >= 4 * steps and steps >= 8 * LANES
    if nest.piece * tile.vectors < LINE and weights * blocks < NARROW_WEIGHTS:
        return tiles
    if not (sparse or wide):
        return 1
    room = cache / (weights * tile.vectors)
    return max(d for d in b.divisors(tiles, tiles) if d <= max(1, room))
