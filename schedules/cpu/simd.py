"""Vectors of CPUs: how wide they are, and what is left to vectorise."""

from __future__ import annotations

import math
from typing import Any

from tvm import s_tir, tirx

from tvm_sparse.machine.vector import LANES
from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.blocks import BlockRV
from tvm_sparse.schedules.cpu import cores


def lanes(channels: int | None) -> int:
    """Return the widest vector of fp32 that divides ``channels``."""
    return next((v for v in (LANES, 8, 4, 2) if channels and channels % v == 0), 1)


def registers(sch: s_tir.Schedule, anchor: str) -> int:
    """Return the vectors that the register tile of the block called ``anchor`` accumulates in.

    ``anchor``'s reduction is decomposed already: its initial values fill the tile once.
    """
    loops = [sch.get(loop) for loop in sch.get_loops(sch.get_sblock(f"{anchor}_init"))]
    lanes = math.prod(int(x.extent) for x in loops if int(x.kind) == b.VECTORIZED)
    unrolled = math.prod(int(x.extent) for x in loops if int(x.kind) == b.UNROLLED)
    return unrolled * math.ceil(lanes / LANES)


def vectorise_tile(
    sch: s_tir.Schedule, block: BlockRV, outer: int, width: Any, tunable: bool = False
) -> None:
    """Vectorise ``block`` over its last loop and unroll the other loops inside ``outer`` ones.

    A tunable trace unrolls loops of one step too: another decision makes them longer.
    """
    *rest, last = sch.get_loops(block)[outer:]
    out, lane = sch.split(last, [None, width])
    sch.vectorize(lane)
    for loop in (*rest, out):
        if tunable or b.extent(sch, loop) != 1:
            sch.unroll(loop)


def even(sch: s_tir.Schedule, block: BlockRV) -> int | None:
    """Return the greatest extent whose multiples never meet two pieces of the last axis.

    ``None`` if the axis is symbolic. A block that joins tensors along it reads each of them at
    ``axis - start``; vectors across a start would be taken apart into lanes.
    """
    body = sch.get(block)
    axis = body.iter_vars[-1]
    if not hasattr(axis.dom.extent, "value"):
        return None
    last = [read.region[-1].min for read in body.reads if len(read.region)]
    starts = [int(e.b) for e in last if isinstance(e, tirx.Sub) and hasattr(e.b, "value")]
    return math.gcd(int(axis.dom.extent), *starts)


def vectorise_last(sch: s_tir.Schedule, block: BlockRV) -> None:
    """Vectorise the last loop of an element-wise block that is still a plain loop nest.

    Where pieces are joined, vectors of two registers ask half as often which piece they meet.
    """
    last = sch.get_loops(block)[-1]
    whole = even(sch, block)
    width = lanes(whole)
    if whole and whole != b.extent(sch, last) and whole % 32 == 0:
        width = 32
    if width == 1:
        return
    _, lane = sch.split(last, [None, width])
    sch.vectorize(lane)


def finish(sch: s_tir.Schedule, *, shared: bool = True) -> None:
    """Vectorise the element-wise blocks that an anchor's rule left alone (what was cut off).

    Threads may share them if they are to be ``shared``.
    """
    for block in b.all_blocks(sch):
        loops = sch.get_loops(block)
        plain = len(loops) == len(sch.get(block).iter_vars)
        # A tile can happen to have as many loops as axes; its lanes tell it apart.
        plain = plain and all(int(sch.get(loop).kind) == b.SERIAL for loop in loops)
        if loops and plain and not b.is_reduction(sch, block):
            vectorise_last(sch, block)
            if shared:
                cores.parallelise(sch, block)
