"""Pieces of operators that put packed weights on chip and hand them to intrinsics."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from tvm_sparse.ops.marks import VECTOR

SHARED = "shared.dyn"
"""Scope of a thread block's shared memory."""


def pointer(region: Any, extent: int, mode: str) -> Any:
    """Return the address of a one-dimensional region; passes see what is done there."""
    dtype = str(region.source.dtype)
    view = T.match_buffer(region, (extent,), dtype, scope=SHARED, offset_factor=1)
    return view.access_ptr(mode)


def copied(name: str, source: tirx.Buffer) -> Any:
    """Emit a plain copy of ``source`` to shared memory, and return it."""
    out = T.sblock_alloc_buffer(list(source.shape), str(source.dtype), scope=SHARED)
    with T.grid(*source.shape) as axes, T.sblock(name):
        place = list(T.axis.remap("S" * len(source.shape), axes))
        T.reads(source[tuple(place)])
        T.writes(out[tuple(place)])
        T.sblock_attr({VECTOR: int(source.shape[-1])})
        T.buffer_store(out, source[tuple(place)], place)
    return out
