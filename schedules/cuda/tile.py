"""Tiled contractions on GPUs: what both engines do around their multiplication."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm import s_tir, tirx
from tvm.target import Target

from tvm_sparse.ops.cuda.parts import PARTIAL, TOTAL
from tvm_sparse.ops.cuda.tile import COPIES, DECODE
from tvm_sparse.ops.marks import TILE, VECTOR
from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.blocks import LoopRV
from tvm_sparse.schedules.cuda import threads as t
from tvm_sparse.schedules.cuda.parts import add_parts
from tvm_sparse.schedules.cuda.tile_limits import DEPTH, LIMIT
from tvm_sparse.schedules.isolate import isolate
from tvm_sparse.schedules.sampling import choose, factors

STAGES = 4
"""Copies under way by default, at most; fewer where shared memory is too small."""

DEPTHS = (2, 3, 4, 5, 6)
"""Copies under way that tuning tries."""


@dataclass(frozen=True)
class Parts:
    """A tiled contraction taken apart.

    ``tile`` is (rows, features, columns) of a thread block, ``last`` the one block behind the
    product, which stores the result. ``batch``: blocks of features are those of several items.
    """

    sch: s_tir.Schedule
    anchor: Any
    last: Any
    tile: tuple[int, int, int]
    batch: bool = False

    @property
    def grid(self) -> str:
        """Axes of rows, of blocks of features and of their parts: the first has room for most."""
        return "yxz" if self.batch else "xyz"

    @property
    def copies(self) -> list[str]:
        """Names of the blocks that copy operands to the chip."""
        names = {self.sch.get(block).name_hint for block in b.all_blocks(self.sch)}
        return [name for name in COPIES if name in names]

    @property
    def packed(self) -> bool:
        """Whether the weights are packed."""
        return COPIES[1] not in self.copies

    @property
    def decodes(self) -> bool:
        """Whether a dense tile is made of packed weights."""
        return DECODE in {self.sch.get(block).name_hint for block in b.all_blocks(self.sch)}


def take_apart(func: tirx.PrimFunc, operator: str, own: tuple[str, ...] = ()) -> Parts | None:
    """Return the parts of ``func`` if its operator mark is ``operator``; inline its epilogue."""
    sch = s_tir.Schedule(func)
    anchor = b.marked(sch, (operator,))
    if anchor is None:
        return None
    rows, features, columns = (int(e) for e in sch.get(anchor).annotations[TILE])
    sums, last = anchor, isolate(sch, anchor, keep=(*COPIES, DECODE, *own, PARTIAL, TOTAL))
    if own:
        sums, (last,) = last, sch.get_consumers(last)
    # Those of a batch are (item, row, feature), others (row, feature).
    kept = len(sch.get(sums).writes[0].source.shape) - 1
    t.flatten_rows(sch, last, kept=kept)
    return Parts(sch, anchor, last, (rows, features, columns), batch=kept > 1)


def split_features(parts: Parts, loop: LoopRV, inner: list[int], tunable: bool) -> list[Any]:
    """Split a block of features into parts for grid, threads, and one thread; return the factors.

    What is packed is used whole: one part.
    """
    if parts.packed and tunable:
        return [1, *factors(parts.sch, loop, inner[1:], tunable)]
    return factors(parts.sch, loop, inner, tunable)


def split_columns(parts: Parts, loop: LoopRV, columns: int, tunable: bool) -> tuple[Any, Any]:
    """Split the reduction into steps; those of packed weights are the format's."""
    step, inner = parts.sch.split(
        loop, factors(parts.sch, loop, [columns], tunable and not parts.packed)
    )
    return step, inner


def stage(parts: Parts, loop: LoopRV, threads: t.Threads) -> None:
    """Bring both operands' tiles to shared memory under ``loop``: 16-byte copies, decoded there.

    Rows are padded so that the eight rows of an ``ldmatrix``, or a column of scalars, fall on
    different banks.
    """
    sch = parts.sch
    if parts.decodes:
        block = sch.get_sblock(DECODE)
        sch.compute_at(block, loop, preserve_unit_loops=True)
        sch.unroll(t.spread(sch, sch.get_loops(block)[-2:], threads, 1))
    for name in reversed(parts.copies):
        block = sch.get_sblock(name)
        vector = t.vector_width(sch, block, int(sch.get(block).annotations[VECTOR]))
        first = -2
        sch.compute_at(block, loop, preserve_unit_loops=True, index=first)
        sch.unroll(t.spread(sch, sch.get_loops(block)[-2:], threads, vector))
    packed = (DECODE,) if parts.decodes else ()
    for name in (COPIES[0], *(packed if parts.packed else COPIES[1:2])):
        block = sch.get_sblock(name)
        offset = t.VECTOR_BYTES // t.item_bytes(sch, block)
        sch.storage_align(block, 0, axis=-2, factor=32, offset=offset)


def staged(parts: Parts) -> Any:
    """Return the buffer that activations are staged in."""
    return parts.sch.get(parts.sch.get_sblock(COPIES[0])).writes[0].source


def pipeline(parts: Parts, loop: LoopRV, target: Target, tunable: bool) -> None:
    """Overlap the copies of later steps of ``loop`` with the products of this one.

    How many copies may be under way is written into the program: a loop of open extent has none.
    """
    if b.extent(parts.sch, loop) is None:
        return
    rows, features, columns = parts.tile
    size = int(staged(parts).dtype.bits) // 8
    padding = 32 + t.VECTOR_BYTES // size
    one = (rows * (columns + padding) + columns * (features + padding)) * size
    depth = max(2, min(STAGES, int(target.attrs["max_shared_memory_per_block"]) // one))
    sch = parts.sch
    depth = choose(sch, DEPTHS, depth, tunable)
    if tunable:
        sch.annotate(parts.anchor, DEPTH, depth)
        sch.annotate(parts.anchor, LIMIT, int(target.attrs["max_shared_memory_per_block"]))
    stages = [*[0] * len(parts.copies), *[depth - 1] * (2 if parts.decodes else 1)]
    sch.annotate(loop, "software_pipeline_stage", stages)
    sch.annotate(loop, "software_pipeline_order", list(range(len(stages))))
    sch.annotate(loop, "software_pipeline_async_stages", [0])


def store_tile(parts: Parts, threads: t.Threads) -> None:
    """Write the epilogue's tile to global memory in the widest pieces that its rows allow."""
    sch = parts.sch
    features = sch.get(parts.last).iter_vars[-1].dom.extent
    known = math.gcd(int(features), parts.tile[1]) if isinstance(features, tirx.IntImm) else 1
    vector = t.vector_width(sch, parts.last, known)
    step = t.spread(sch, sch.get_loops(parts.last)[-2:], threads, vector)
    sch.unroll(step)


def finish(parts: Parts, target: Target) -> s_tir.Schedule:
    """Bind what is left and return the schedule."""
    add_parts(parts.sch)
    t.bind_leftovers(parts.sch, target)
    return parts.sch
