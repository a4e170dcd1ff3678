"""The tile of products of two activations: that of a dense layer with all items' features."""

from __future__ import annotations

import math

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
"""Thread blocks along the second axis of a grid, at most."""


def product_tile(
    size: tuple[int, int, int], items: int, numerics: Numerics, target: Target
) -> ThreadBlockTile | None:
    """Return the tile of ``items`` products of ``size`` (rows, features, columns).

    None: there are too many for one grid.
    """
    rows, features, columns = size
    c = Contraction((rows,), columns, features * items, numerics=numerics)
    most = FILLED * round_up(features, EDGE)
    widths = [width for width in FEATURES if round_up(features, width) <= most]
    tile = choose_tile(c, Staging(columns), chip(target), features=widths, whole=True)
    return tile if math.ceil(features / tile.features) * items <= MOST_BLOCKS else None
