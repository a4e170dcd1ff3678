"""The tile of products of two activations: that of a dense layer with all items' features."""

from __future__ import annotations

import math
from typing import Any

from tvm.target import Target

from tvm_sparse.base.numerics import Numerics
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda.multiply import EDGE
from tvm_sparse.ops.cuda.tile import ThreadBlockTile, round_up
from tvm_sparse.selection.cuda.chip import chip
from tvm_sparse.selection.cuda.tile_choice import FEATURES, choose_tile
from tvm_sparse.selection.cuda.tile_demand import Staging

FILLED = 1.15
"""Features of whole tiles over those that are filled up least, at most."""

MOST_BLOCKS = 65535
"""Thread blocks along all but the first axis of a grid, at most."""

UNKNOWN = 64
"""What a symbolic extent counts as."""


def product_tile(
    size: tuple[Any, Any, Any], lead: tuple[Any, ...], numerics: Numerics, target: Target
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
