"""The loops of a contraction, and what of them its rule decides by."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm import s_tir, tirx

from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.marks import GROUP, OPERATOR, ROWS
from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.blocks import BlockRV
from tvm_sparse.schedules.cpu.order import images_first

LOADED = 3.0
"""Multiply-adds that take as long as loading a weight for them."""


@dataclass(frozen=True)
class Nest:
    """Loops of a contraction: leading axes, blocks of features, lanes (or members), reduction.

    ``images`` of the leading loops go before the feature blocks. ``flops`` count what time they
    take: with few rows weights are loaded more than they are multiplied. A product of two
    activations has ``features`` in one loop, which is cut into blocks here. The steps of nests
    ``in_vectors`` are whole vectors; others have a loop over lanes. ``widest`` is the most vectors
    that a tile may span: of a partial vector there is no block of its own, and other groups of
    features read other columns. Rows in ``parts`` have no partial tiles. Of each vector, the
    epilogue stores a ``piece`` of so many bytes.
    """

    operator: str
    anchor: BlockRV
    lead: list[Any]
    axis: int
    block: Any
    inner: Any
    reduce: list[Any]
    share: int
    flops: float
    images: int
    features: int
    in_vectors: bool
    widest: int
    parts: bool = False
    piece: int = 0

    @classmethod
    def of(cls, sch: s_tir.Schedule, anchor: BlockRV, cache: int) -> Nest:
        """Return the loops around ``anchor``; ``cache`` is the size of the second cache."""
        annotations = sch.get(anchor).annotations
        operator, axis = str(annotations[OPERATOR]), int(annotations[ROWS])
        loops, spatial = sch.get_loops(anchor), b.spatial_count(sch, anchor)
        reduce = loops[spatial:]
        if operator == "matmul":
            *lead, feature = loops[:spatial]
            features = b.extent(sch, feature) or LANES
            block, inner = sch.split(feature, [None, min(LANES, features)])
        else:
            *lead, block, inner = loops[:spatial]
            features = LANES * b.extent(sch, block)
        step = sch.get(anchor).writes[0].region[-1].extent
        in_vectors = int(step) > 1 if isinstance(step, tirx.IntImm) else False
        share = b.extent(sch, inner) if in_vectors else 1
        flops = b.flops(sch, anchor) * (int(step) if in_vectors else 1)
        rows = math.prod(b.extent(sch, loop) or 1 for loop in lead)
        flops *= 1 + LOADED / rows
        others = [loop for i, loop in enumerate(lead) if i != axis]
        images = 0 if operator == "matmul" else images_first(sch, anchor, others, cache)
        widest = max(1, int(annotations.get(GROUP, features // LANES)) // share)
        axes, sizes = (block, inner, reduce), (share, flops, images, features)
        return cls(operator, anchor, lead, axis, *axes, *sizes, in_vectors, widest)

    @property
    def others(self) -> list[Any]:
        """Leading loops that the register tile does not span."""
        return [loop for i, loop in enumerate(self.lead) if i != self.axis]
