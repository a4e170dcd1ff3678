"""Which decisions about a tiled contraction fit a thread block."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm import s_tir

from tvm_sparse.ops.cuda.tile import COPIES, DECODE
from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.cuda import threads as t

LIMIT = "ts.shared"
"""Annotation of a tunable product: bytes of shared memory that a thread block may use."""

DEPTH = "ts.depth"
"""Annotation of a tunable product: copies under way. TVM takes a decision that only a list names,
as pipeline annotations are, for unused."""

LEAST_THREADS, MOST_THREADS = 32, 1024
MOST_SUMS = 128
"""Sums that a thread may hold; operands and addresses take other registers."""

MOST_UNROLLED = 4096
"""Products of a thread in the program, which has a step for each copy under way: more take minutes
to compile."""

ROUNDING = 64
"""What the compiler aligns a buffer in shared memory to, in bytes."""

ALIGN = 32
"""What the rows of staged tiles are padded to, in elements (up to an offset)."""


@dataclass(frozen=True)
class ThreadLoad:
    """Threads of a block, sums of a thread, products of a thread in one step."""

    threads: int
    sums: int
    products: int


def fits(sch: s_tir.Schedule, shape: ThreadLoad, tile: tuple[int, int, int]) -> bool:
    """Whether a thread block's threads, registers and shared memory suffice.

    ``tile`` is what was decided: (rows, features, columns) of a thread block.
    """
    if not LEAST_THREADS <= shape.threads <= MOST_THREADS:
        return False
    if shape.sums > MOST_SUMS or shape.threads * shape.sums > t.REGISTERS // 2:
        return False
    anchor = sch.get(sch.get_sblock("contract_update"))
    short = shape.products * depth(sch) <= MOST_UNROLLED
    return short and shared(sch, tile) <= int(anchor.annotations[LIMIT])


def shared(sch: s_tir.Schedule, tile: tuple[int, int, int]) -> int:
    """Return the shared memory of a thread block in bytes, at most.

    Copies have as many versions as the pipeline is deep; what is decoded or left for the epilogue
    has one.
    """
    rows, features, columns = tile
    names = {sch.get(block).name_hint for block in b.all_blocks(sch)}
    copies = [name for name in COPIES if name in names]
    size = t.item_bytes(sch, sch.get_sblock(COPIES[0]))
    offset = t.VECTOR_BYTES // size
    x, w = rows * _padded(columns, offset), features * _padded(columns, offset)
    if COPIES[1] in names:
        w = columns * _padded(features, offset)
        staged, decoded = (x + w) * size, 0
    else:
        staged = x * size + sum(_packed(sch, name) for name in copies[1:])
        decoded = w * size if DECODE in names else 0
    result = rows * _padded(features, 8) * 4 if "unfold" in names else 0
    return max(depth(sch) * staged + decoded + len(copies) * ROUNDING, result)


def depth(sch: s_tir.Schedule) -> int:
    """Return how many copies are under way."""
    return int(sch.get(sch.get_sblock("contract_update")).annotations[DEPTH])


def extents(sch: s_tir.Schedule) -> list[Any]:
    """Return the extents of the loops around the product, ``None`` for symbolic ones."""
    return [b.extent(sch, loop) for loop in sch.get_loops(sch.get_sblock("contract_update"))]


def _padded(extent: int, offset: int) -> int:
    """Return the pitch of rows of ``extent`` elements."""
    return math.ceil((extent - offset) / ALIGN) * ALIGN + offset


def _packed(sch: s_tir.Schedule, name: str) -> int:
    """Return the bytes of packed weights that a step copies."""
    block = sch.get_sblock(name)
    return int(sch.get(block).writes[0].source.shape[-1]) * t.item_bytes(sch, block)
