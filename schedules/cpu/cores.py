"""Work for several threads: what is worth sharing, and how evenly."""

from __future__ import annotations

import math

from tvm import s_tir, tirx
from tvm.target import Target

from tvm_sparse.base.targets import threads_of
from tvm_sparse.machine.registry import machine_of
from tvm_sparse.ops.contractions.contraction import OPEN_ROWS
from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.blocks import BlockRV, LoopRV

PARALLEL_FLOPS = 2e4
"""For each thread, what a contraction is worth sharing from: 0.2 us of one core.

A loop takes as long for each of its threads: what begins and ends it goes from cache to cache."""

TASKS_A_CORE = 4
"""Steps of a loop on threads that share it evenly enough."""

_BYTES = 8
"""Of a weight, with its index."""

_MANY = 16
"""Steps a thread of which one more or less is even enough."""

PARALLEL_POINTS = 1 << 13
"""Smallest element-wise block that is worth sharing: 1 us of one core."""


def worthwhile(flops: float, target: Target) -> bool:
    """Whether all threads shall share a contraction of ``flops``."""
    return flops > PARALLEL_FLOPS * threads_of(target)


def is_large(sch: s_tir.Schedule, block: BlockRV) -> bool:
    """Whether all threads shall share an element-wise block, or a reduction.

    Open extents count as many, but that of a first axis, which is a batch.
    """
    axes = [axis.dom.extent for axis in sch.get(block).iter_vars]
    still_open = [i for i, extent in enumerate(axes) if not isinstance(extent, tirx.IntImm)]
    batch = still_open[:1] == [0] and isinstance(axes[0], tirx.Var)
    many = OPEN_ROWS ** (len(still_open) - batch)
    return b.flops(sch, block) * many > 2 * PARALLEL_POINTS


def parallelise(sch: s_tir.Schedule, block: BlockRV) -> None:
    """Run the outer loops of a large element-wise block on all threads."""
    if is_large(sch, block):
        loops = sch.get_loops(block)
        share(sch, loops[: max(1, len(loops) - 2)])


def share(sch: s_tir.Schedule, loops: list[LoopRV]) -> None:
    """Run ``loops`` on all threads: as one loop, or the first open one behind the batch alone.

    In each step of a product of open extents, numbers would be divided by what is not known before,
    and TVM cannot always say so.
    """
    still_open = [loop for loop in loops[1:] if b.extent(sch, loop) is None]
    tasks(sch, still_open[:1] or loops)


def tasks(sch: s_tir.Schedule, loops: list[LoopRV]) -> list[LoopRV]:
    """Run ``loops`` as one loop on all threads, unless it would have a single step."""
    if all(b.extent(sch, loop) == 1 for loop in loops):
        return loops
    fused = sch.fuse(*loops)
    sch.parallel(fused)
    return [fused]


def few_tasks(
    sch: s_tir.Schedule, loops: list[LoopRV], planes: list[LoopRV], target: Target
) -> list[LoopRV]:
    """Run the outermost of ``loops`` on all threads; return what they are now.

    As few as share the work evenly, and only a part of one of ``planes``. Weights that stay decoded
    for all rows of a loop would be loaded and decoded again in each step. A convolution of 64 to
    384 channels on 14 x 14, 87.5 % zeros, took a third more time. One thread has nothing to share.
    """
    threads = threads_of(target)
    if threads == 1:
        return loops
    least = TASKS_A_CORE * threads
    taken: list[LoopRV] = []
    rest = list(loops)
    count = 1
    while rest and count < least:
        loop = rest.pop(0)
        still_open = b.extent(sch, loop) is None
        steps = _typical(loop, planes) if still_open else b.extent(sch, loop)
        parts = min(d for d in b.divisors(steps, steps) if count * d >= least or d == steps)
        if parts < steps and not still_open and any(loop is plane for plane in planes):
            loop, inner = sch.split(loop, [parts, None])
            rest, steps = [inner, *rest], parts
        taken.append(loop)
        count *= steps
    return [*tasks(sch, taken), *rest]


def _typical(loop: LoopRV, planes: list[LoopRV]) -> int:
    """Return the steps that an open loop stands for: lines of a plane are many, images one."""
    return OPEN_ROWS if len(planes) > 1 and loop is planes[-1] else 1


def split_evenly(
    sch: s_tir.Schedule, shared: list[LoopRV], loop: LoopRV, whole: int, target: Target
) -> tuple[list[LoopRV], LoopRV]:
    """Return the parts of ``loop`` that threads share evenly, too, and what is left of it.

    Where the steps of the loops ``shared`` leave some threads with less, each is cut into a few
    parts of ``loop``, in multiples of ``whole`` steps: seven pairs of rows for two threads are
    fourteen halves of their channels. No extent may depend on a decision: another one would let
    parts reach into each other.
    """
    threads, steps = threads_of(target), math.prod(b.extent(sch, s) or 1 for s in shared)
    parts = threads // math.gcd(steps, threads)
    if parts == 1 or steps > _MANY * threads or (b.extent(sch, loop) or 1) % (parts * whole):
        return [], loop
    part, rest = sch.split(loop, [parts, None])
    return [part], rest


def split_plane(
    sch: s_tir.Schedule, anchor: BlockRV, lead: list[LoopRV], rows: int, target: Target
) -> tuple[list[LoopRV], list[LoopRV]]:
    """Return what threads share of the last of the leading loops but ``lead[rows]``, and the rest.

    That is a part for each thread, or all lines of an open plane. Each thread then finds in its own
    cache what it wrote as its part of the layer before; were features shared, half of it would come
    from another core's. Nothing is shared where parts are uneven or weights larger than
    activations. Every line of an open plane passes all weights, so these have to stay in a core's
    own cache.
    """
    axis = max(i for i in range(len(lead)) if i != rows)
    loop = lead[axis]
    threads, steps = threads_of(target), b.extent(sch, loop)
    if threads == 1 or (steps is None and axis == 0) or (steps or 0) % threads:
        return [], [loop]
    block = sch.get(anchor)
    position = block.iter_vars[axis].var
    weights, activations = 0, 0
    for region in (*block.reads, *block.writes):
        size = b.elements(region.source)
        used = (v for part in region.region for v in tirx.analysis.undefined_vars(part.min))
        if any(v.same_as(position) for v in used):
            activations += size
        else:
            weights += size
    if steps is None:
        few = _BYTES * weights <= machine_of(target).caches.second // 2
        return ([loop], []) if few else ([], [loop])
    if weights > activations:
        return [], [loop]
    part, rest = sch.split(loop, [threads, None])
    return [part], [rest]
