"""A tiled contraction as an option: its demand follows from format and tile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tirx

from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda.tile import ThreadBlockTile
from tvm_sparse.selection.cuda import tile_choice
from tvm_sparse.selection.cuda.chip import Chip
from tvm_sparse.selection.cuda.demand import Demand, seconds
from tvm_sparse.selection.cuda.option import Option
from tvm_sparse.selection.cuda.tile_demand import staging_of, tile_demand


def stored_demand(c: Contraction, format: Any, tile: ThreadBlockTile, on: Chip) -> Demand:
    """Return the demand of ``c`` with weights in ``format``, in tiles of ``tile``."""
    rows, staging = tile_choice.known_rows(c.lead), staging_of(format, c.dtype)
    nbytes = format.nbytes(c.dtype) - staging.unread + tile_choice.activation_bytes(c)
    return tile_demand((rows, c.features), staging, tile, c.dtype, on, nbytes=nbytes)


def tile_option(
    name: str,
    format: Any,
    tile: ThreadBlockTile,
    where: tuple[Contraction, Chip],
    build: Callable[[], tirx.PrimFunc],
    *,
    work: float = 1.0,
    kernel: str = "",
) -> Option:
    """Return the option ``name`` of a contraction on a chip, which ``build`` builds."""
    c, on = where
    kernel = kernel or ("tile" if c.numerics.floating else "byte tile")
    demand = stored_demand(c, format, tile, on)
    return Option(name, kernel, format, work, seconds(demand, on), build, demand, tile)
