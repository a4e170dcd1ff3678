"""In which order tiles of a contraction are walked, for the caches."""

from __future__ import annotations

import math

from tvm import s_tir

from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.blocks import BlockRV, LoopRV


def images_first(sch: s_tir.Schedule, anchor: BlockRV, others: list[LoopRV], cache: int) -> int:
    """Return how many of the leading loops ``others`` to walk before features: none, or the first.

    Features are outermost, so that their weights stay near; but a batch of images of more than
    ``cache`` bytes, the second cache, would then pass once a feature tile: its images come first.
    """
    batch = b.extent(sch, others[0]) if others else None
    if (batch or 1) == 1:
        return 0
    shapes = (read.source.ty.shape for read in sch.get(anchor).reads)
    static = (
        [int(e) for e in shape] for shape in shapes if all(hasattr(e, "value") for e in shape)
    )
    images = [4 * math.prod(shape) for shape in static if shape[0] == batch]
    return int(max(images, default=0) > cache)
