"""In which order tiles of a contraction are walked, for the caches."""

from __future__ import annotations

import math

from tvm import s_tir, tirx

from tvm_sparse.machine.vector import SUM_BITS
from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.blocks import BlockRV, LoopRV

STREAMED = 8
"""Times ``cache`` that a result takes which is written a row tile after the other."""


def whole_rows(rows: int, columns: int, steps: int, cache: float) -> bool:
    """Whether a product of two activations is walked along its rows, not tile below tile.

    Rows of a result that leaves the second cache lie on pages of their own: tile below tile, each
    vector is stored on another one. The right operand, of ``steps`` rows, must fit ``cache`` bytes.
    """
    row = columns * SUM_BITS // 8
    return row * steps <= cache and row * rows > STREAMED * cache


def images_first(sch: s_tir.Schedule, anchor: BlockRV, others: list[LoopRV], cache: int) -> int:
    """Return how many of the leading loops ``others`` to walk before features: none, or the first.

    Features are outermost, so that their weights stay near; but a batch of images of more than
    ``cache`` bytes, the second cache, would then pass once a feature tile: its images come first.
    """
    batch = b.extent(sch, others[0]) if others else None
    if (batch or 1) == 1:
        return 0
    shapes = (read.source.ty.shape for read in sch.get(anchor).reads)
    known = (shape for shape in shapes if all(isinstance(e, tirx.IntImm) for e in shape))
    static = ([int(e) for e in shape] for shape in known)
    images = [4 * math.prod(shape) for shape in static if shape[0] == batch]
    return int(max(images, default=0) > cache)
