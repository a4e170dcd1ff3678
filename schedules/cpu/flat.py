"""Axes of a block that memory has side by side: they may be one loop, and that one vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm import ir, s_tir, tirx

from tvm_sparse.machine.vector import LANES
from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.blocks import BlockRV, LoopRV
from tvm_sparse.schedules.variables import uses

WIDEST = 2 * LANES
"""Most lanes of a vector that is no whole number of registers."""


def side_by_side(sch: s_tir.Schedule, block: BlockRV, kind: int) -> int:
    """Return how many of the last axes of ``kind`` are the last ones of every tensor, in order.

    A tensor that does not depend on any of them does not count.
    """
    body = sch.get(block)
    axes = [v for v in body.iter_vars if int(v.iter_type) == kind]
    written = [(w.source, [part.min for part in w.region]) for w in body.writes]
    loads = [(load.source, list(load.indices)) for load in b.nodes(body.body, ir.TensorLoad)]
    if not all(any(r.source.same_as(source) for source, _ in loads) for r in body.reads):
        return 0  # it is read in another way
    regions = [part for r in body.reads for part in r.region]
    if kind == b.REDUCTION and not all(_is_one(part) for part in regions):
        return 0  # a sum that reads several places keeps one axis in vectors
    tensors = [(t, i) for t, i in loads if not any(t.same_as(w) for w, _ in written)]
    if kind == b.SPATIAL:
        tensors += written
    count = 0
    for number in range(1, len(axes) + 1):
        if not all(_walks(*tensor, axes[-number:]) for tensor in tensors):
            break
        count = number
    return count


def _walks(tensor: Any, index: list[Any], axes: Sequence[Any]) -> bool:
    """Whether a tensor's last indices are ``axes``, or none of its indices depends on them.

    The first of several may begin later, in a slice of whole inner axes.
    """
    shape = tensor.ty.shape
    head, tail = index[: -len(axes)], index[-len(axes) :]
    used = [any(uses(i, axis.var) for axis in axes) for i in index]
    if not any(used):
        return True
    if len(tail) < len(axes) or any(used[: len(head)]):
        return False
    first, *rest = tail
    if isinstance(first, tirx.Add) and hasattr(first.b, "value"):
        first = first.a
    pairs = zip((first, *rest), axes, strict=True)
    same = all(i.same_as(axis.var) for i, axis in pairs)
    inner = zip(shape[len(head) + 1 :], axes[1:], strict=True)
    return same and all(_equal(extent, axis.dom.extent) for extent, axis in inner)


def _is_one(part: Any) -> bool:
    return hasattr(part.extent, "value") and int(part.extent) == 1


def _equal(a: Any, b: Any) -> bool:
    return isinstance(a, tirx.IntImm) and isinstance(b, tirx.IntImm) and int(a) == int(b)


def last_loop(sch: s_tir.Schedule, loops: list[LoopRV], most: int) -> tuple[LoopRV, int]:
    """Fuse as many of the last ``most`` loops as make whole vectors; return the loop and its lanes.

    One lane if no divisor of any of them is a vector.
    """
    extents = [b.extent(sch, loop) for loop in loops]
    found = [(1, 1)]
    for count in range(1, most + 1):
        if None in extents[-count:]:
            break
        found.append((_lanes(math.prod(extents[-count:])), count))
    lanes, count = max(found, key=lambda f: (f[0] % LANES == 0, f[0]))
    return sch.fuse(*loops[-count:]) if count > 1 else loops[-1], lanes


def _lanes(extent: int) -> int:
    if extent % LANES == 0:
        return LANES
    return max((d for d in range(4, WIDEST) if extent % d == 0), default=1)
