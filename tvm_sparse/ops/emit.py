"""Pieces that several operator definitions emit or compute in the same way."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from tvm_sparse.ops.contraction import Contraction
from tvm_sparse.ops.marks import int64


def store_lanes(c: Contraction, lanes: int, acc: Any, y: Any) -> None:
    """Emit the block ``store``: unpack lanes of features into the output's last axis."""
    with T.grid(*int64(c.output_shape)) as axes, T.sblock("store"):
        *lead, out = T.axis.remap("S" * len(c.output_shape), axes)
        T.reads(acc[(*lead, out // lanes, out % lanes)])
        T.writes(y[(*lead, out)])
        T.buffer_store(y, acc[(*lead, out // lanes, out % lanes)], [*lead, out])


def unravel(position: Any, extents: tuple[Any, ...]) -> list[Any]:
    """Return the row-major index of ``position`` in ``extents``; the inverse of ``flat``."""
    index: list[Any] = []
    for extent in reversed(extents[1:]):
        index.insert(0, position % extent)
        position = position // extent
    return [position, *index] if extents else []


def whole(buffer: Any) -> Any:
    """Return all of ``buffer``, for ``T.reads``."""
    return buffer[tuple(slice(0, extent) for extent in buffer.shape)]


def stored_dtype(stored: str, dtype: str) -> str:
    """Return the type of the buffer that holds values stored as ``stored`` (``dtype`` if empty).

    bfloat16 is held by its bits: TVM would round sums to it as well.
    """
    return {"": dtype, "bfloat16": "uint16"}.get(stored, stored)


def widen(vector: Any, stored: str, lanes: int) -> Any:
    """Return a vector of stored values as fp32."""
    if not stored:
        return vector
    if stored == "float16":
        return tirx.Cast(f"float32x{lanes}", vector)
    bits = tirx.Cast(f"uint32x{lanes}", vector)
    high = tirx.shift_left(bits, tirx.Broadcast(tirx.const(16, "uint32"), lanes))
    return tirx.reinterpret(f"float32x{lanes}", high)
