"""Pieces of operators that put packed weights on chip and hand them to intrinsics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from tvm_sparse.ops.marks import VECTOR, int64

SHARED = "shared.dyn"
"""Scope of a thread block's shared memory."""


def pointer(region: Any, extent: int, mode: str) -> Any:
    """Return the address of a one-dimensional region; passes see what is done there."""
    dtype = str(region.source.dtype)
    view = T.match_buffer(region, (extent,), dtype, scope=SHARED, offset_factor=1)
    return view.access_ptr(mode)


def copied(
    name: str,
    source: tirx.Buffer,
    extents: tuple[int, int],
    place: Callable[[Any, Any], tuple[Any, Any]],
) -> Any:
    """Emit a plain copy of ``source[block, step, element]`` to shared memory, and return it.

    ``extents`` are the blocks and steps of the copy, ``place`` says where each lies in the source.
    """
    shape = [*int64(extents), source.shape[2]]
    out = T.sblock_alloc_buffer(shape, str(source.dtype), scope=SHARED)
    with T.grid(*out.shape) as axes, T.sblock(name):
        block, step, element = T.axis.remap("SSS", axes)
        value = source[(*place(block, step), element)]
        T.reads(value)
        T.writes(out[block, step, element])
        T.sblock_attr({VECTOR: int(source.shape[2])})
        T.buffer_store(out, value, [block, step, element])
    return out


def copy(
    value: Any, target: tirx.Buffer, place: Sequence[Any], inside: list[Any], vector: int
) -> None:
    """Emit the body of a block that copies ``value``, or zero outside, ``vector`` at a time."""
    T.reads(value)
    T.writes(target[tuple(place)])
    T.sblock_attr({VECTOR: vector})
    zero = tirx.const(0, str(target.dtype))
    T.buffer_store(target, tirx.if_then_else(tirx.all(*inside), value, zero), list(place))
