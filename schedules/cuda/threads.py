"""Steps that GPU schedules share: spread loops over threads, flatten outputs, bind leftovers."""

from __future__ import annotations

import math
import re
from typing import Any

import tvm_ffi
from tvm import s_tir, tirx
from tvm.target import Target
from tvm.tirx import IndexMap

from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.blocks import BlockRV

VECTOR_BYTES = 16
"""Bytes of the widest load and store."""

WARP = 32
REGISTERS = 65536
"""Registers of an SM."""

DEFAULT_THREADS = 256

Threads = tuple[tuple[str, int], ...]
"""Axes and extents of a thread block, outermost first: ``(("threadIdx.y", 8), …)``."""


def item_bytes(sch: s_tir.Schedule, block: BlockRV) -> int:
    """Return the bytes of an element that ``block`` writes."""
    bits = sch.get(block).writes[0].source.dtype.bits
    return max(1, int(bits) // 8)


def vector_width(sch: s_tir.Schedule, block: BlockRV, contiguous: int | None = None) -> int:
    """Return how many elements of ``block`` make one wide access of ``contiguous`` neighbours.

    CUDA has vectors of four conditions at most, and of four constants in single precision.
    """
    widest, body = VECTOR_BYTES // item_bytes(sch, block), sch.get(block).body
    widest = min(widest, 4) if _has_conditions(body) or _has_singles(body) else widest
    return widest if contiguous is None else math.gcd(widest, contiguous)


_SINGLES = re.compile(r"T\.float32\(|T\.(?:sigmoid|tanh|erf|exp|log|pow|rsqrt|sqrt)\w*\(")
"""Constants in single precision, and functions that become arithmetic with some."""


def _has_singles(body: Any) -> bool:
    """Whether ``body`` computes with constants in single precision; its text says so."""
    return _SINGLES.search(str(body)) is not None


_COMPARED = re.compile(r"(?:[<>]=?|[!=]=) (?!T\.u?int|T\.Cast\(\"u?int|-?\d|v(?:_\d+)?\b)")
"""A comparison whose right side is no integer expression, in the text of a block."""


def _has_conditions(body: Any) -> bool:
    """Whether ``body`` compares elements; its text says so, TVM has no visitor in Python.

    Indices are compared with integers, once for all lanes.
    """
    return _COMPARED.search(str(body).replace(">>", "")) is not None


def spread(sch: s_tir.Schedule, loops: list[Any], threads: Threads, vector: int) -> Any:
    """Copy together: run ``loops`` on all threads, neighbours on neighbouring addresses.

    before: ``for a, b`` --> after: ``threads: for step: vectorized``. Returns the serial loop. It
    is outermost where extents are open: conditions that TVM puts around a block forbid to reorder.
    """
    outer, lane = sch.split(loops[-1], [None, vector])
    fused = sch.fuse(*loops[:-1], outer)
    step, *axes = sch.split(fused, [None, *(extent for _, extent in threads)])
    for axis, (tag, _) in zip(axes, threads, strict=True):
        sch.bind(axis, tag)
    if is_static(sch, sch.get_child_blocks(lane)[0]):
        sch.reorder(*axes, step, lane)
    sch.vectorize(lane)
    return step


def is_static(sch: s_tir.Schedule, block: BlockRV) -> bool:
    """Whether all extents of ``block`` are numbers."""
    return all(isinstance(v.dom.extent, tirx.IntImm) for v in sch.get(block).iter_vars)


def flatten_rows(sch: s_tir.Schedule, block: BlockRV, kept: int = 1) -> None:
    """Give an element-wise block the axes (row, feature) instead of its output's own.

    before: ``for b, y, x, o: Y[b, y, x, o]`` --> after: ``for n, o: Y[n // .., n % .., o]``

    The last ``kept`` axes stay: with two of them, that is (item, row, feature).
    """
    extents = [v.dom.extent for v in sch.get(block).iter_vars]
    if len(extents) == 1 + kept:
        return

    def rows(*axes: Any) -> list[Any]:
        lead = axes[: len(axes) - kept]
        position = lead[0]
        for axis, extent in zip(lead[1:], extents[1 : len(lead)], strict=True):
            position = position * extent + axis
        return [position, *axes[len(lead) :]]

    mapping = IndexMap.from_func(rows, ndim=len(extents), index_dtype="int64")
    sch.transform_block_layout(block, mapping)


def reads_side_by_side(sch: s_tir.Schedule, block: BlockRV) -> bool:
    """Whether neighbours along the last axis are neighbours in every buffer, or one element.

    Only then do vectors become wide loads; others would gather, lane by lane.
    """
    body = sch.get(block)
    last = body.iter_vars[-1].var
    for region in body.reads:
        if not region.region:  # a single number
            continue
        *outer, inner = [axis.min for axis in region.region]
        varies = [_uses(index, last) for index in outer]
        plain = inner.same_as(last) or not _uses(inner, last)
        whole = tvm_ffi.structural_equal(region.source.shape[-1], body.iter_vars[-1].dom.extent)
        if any(varies) or not plain or (inner.same_as(last) and not whole):
            return False
        if _moved_by_open_steps(region):
            return False
    return True


def _moved_by_open_steps(region: Any) -> bool:
    """Whether an index is shifted along an axis whose step is open.

    TVM then computes addresses in vectors of 64-bit integers, which CUDA does not have.
    """
    open_steps, found = False, False
    for axis, extent in reversed(list(zip(region.region, region.source.shape, strict=True))):
        found = found or (open_steps and not isinstance(axis.min, tirx.Var | tirx.IntImm))
        open_steps = open_steps or not isinstance(extent, tirx.IntImm)
    return found


def _uses(index: Any, var: Any) -> bool:
    return any(v.same_as(var) for v in tirx.analysis.undefined_vars(index))


def bind_plain(sch: s_tir.Schedule, block: BlockRV, target: Target) -> None:
    """Run an element-wise block that is still a plain loop nest on a grid of its own."""
    loops = sch.get_loops(block)
    last = b.extent(sch, loops[-1])
    wide = last is not None and reads_side_by_side(sch, block)
    vector = vector_width(sch, block, last) if wide else 1
    outer, lane = sch.split(loops[-1], [None, vector])
    most = min(int(target.attrs["max_threads_per_block"]), DEFAULT_THREADS)
    grid, thread = sch.split(sch.fuse(*loops[:-1], outer), [None, most])
    sch.bind(grid, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    sch.vectorize(lane)


def bind_leftovers(sch: s_tir.Schedule, target: Target) -> None:
    """Bind the element-wise blocks that an anchor's rule left alone (what was cut off)."""
    for block in b.all_blocks(sch):
        loops = sch.get_loops(block)
        plain = loops and all(sch.get(loop).thread_binding is None for loop in loops)
        if plain and len(loops) == len(sch.get(block).iter_vars):
            bind_plain(sch, block, target)
