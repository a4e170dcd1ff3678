"""Questions that schedule rules ask about blocks and loops, and the steps that they share."""

from __future__ import annotations

import math
from typing import Any

from tvm import s_tir, tirx
from tvm.target import Target

from tvm_sparse.machine.record import LANES
from tvm_sparse.ops.marks import KIND, flat
from tvm_sparse.targets import threads_of

REDUCTION = 2
SPATIAL = 0
SERIAL = 0
PARALLEL = 1
VECTORIZED = 2
UNROLLED = 3
PARALLEL_FLOPS = 1e6
"""Smallest contraction that is worth a second thread: 10 us of one core, where a region costs 3."""

TASKS_A_CORE = 4
"""Steps of a loop on threads that share it evenly enough."""

PARALLEL_POINTS = 1 << 17
"""Smallest element-wise block that is: 15 us of one core."""

OVERLAP = "ts.overlap"
"""Block annotation: a partial tile may do again what the tile before it did; names a group."""


def divisors(extent: int, most: int) -> list[int]:
    """Return the divisors of ``extent`` up to ``most``."""
    return [d for d in range(1, most + 1) if extent % d == 0]


def extent(sch: s_tir.Schedule, loop: Any) -> Any:
    """Return a loop's static extent, or ``None`` if it is symbolic."""
    value = sch.get(loop).extent
    return int(value) if hasattr(value, "value") else None


def overlap(sch: s_tir.Schedule, *blocks: Any) -> None:
    """Mark blocks whose last tile may overlap the one before, together; see ``OverlapTiles``."""
    for block in blocks:
        sch.annotate(block, OVERLAP, sch.get(blocks[0]).name_hint)


def all_blocks(sch: s_tir.Schedule) -> list[Any]:
    """Return the blocks under the root, in order."""
    return list(sch.get_child_blocks(sch.get_sblock("root")))


def marked(sch: s_tir.Schedule, kinds: tuple[str, ...]) -> Any:
    """Return the block whose operator mark is one of ``kinds``, or ``None``."""
    for block in all_blocks(sch):
        annotations = sch.get(block).annotations
        if KIND in annotations and str(annotations[KIND]) in kinds:
            return block
    return None


def is_reduction(sch: s_tir.Schedule, block: Any) -> bool:
    """Whether a block reduces over some axis."""
    return any(int(v.iter_type) == REDUCTION for v in sch.get(block).iter_vars)


def spatial_count(sch: s_tir.Schedule, block: Any) -> int:
    """Return how many of a block's axes are not reduced."""
    return sum(int(v.iter_type) == SPATIAL for v in sch.get(block).iter_vars)


def domain(sch: s_tir.Schedule, block: Any) -> list[str]:
    """Return the extents of a block's spatial axes, comparable."""
    axes = sch.get(block).iter_vars
    return [str(v.dom.extent) for v in axes if int(v.iter_type) == SPATIAL]


def flops(sch: s_tir.Schedule, block: Any) -> float:
    """Return two operations for each point of a block's domain; symbolic axes count once."""
    extents = (v.dom.extent for v in sch.get(block).iter_vars)
    return 2.0 * math.prod(int(e) if hasattr(e, "value") else 1 for e in extents)


def images_first(sch: s_tir.Schedule, anchor: Any, others: list[Any], cache: int) -> int:
    """Return how many of the leading loops ``others`` to walk before features: none, or the first.

    Features are outermost, so that their weights stay near; but a batch of images of more than
    ``cache`` bytes, the second cache, would then pass once a feature tile: its images come first.
    """
    batch = extent(sch, others[0]) if others else None
    if (batch or 1) == 1:
        return 0
    shapes = (read.source.ty.shape for read in sch.get(anchor).reads)
    static = (
        [int(e) for e in shape] for shape in shapes if all(hasattr(e, "value") for e in shape)
    )
    images = [4 * math.prod(shape) for shape in static if shape[0] == batch]
    return int(max(images, default=0) > cache)


def inline(sch: s_tir.Schedule, keep: tuple[str, ...] = ()) -> None:
    """Inline every element-wise block into its consumers, except ``keep`` and the outputs."""
    for block in all_blocks(sch):
        if sch.get(block).name_hint in keep or is_reduction(sch, block):
            continue
        try:
            sch.compute_inline(block)
        except s_tir.ScheduleError:
            continue  # an output, or not element-wise: it stays a loop of its own


def isolate(sch: s_tir.Schedule, anchor: Any, keep: tuple[str, ...] = ()) -> Any:
    """Leave one block behind ``anchor`` that stores its result, and return that block.

    A consumer with another domain (a broadcast that enlarges it, a padding) is not pulled into
    the anchor's tile: the chain is cut before it. Blocks before the anchor are inlined into it,
    except ``keep``.
    """
    name = sch.get(anchor).name_hint
    cut = [
        sch.get(q).name_hint
        for q in downstream(sch, anchor)
        if any(domain(sch, q) != domain(sch, c) for c in sch.get_consumers(q))
    ]
    inline(sch, keep=(name, *keep, *cut))
    (epilogue,) = sch.get_consumers(anchor)
    return epilogue


def downstream(sch: s_tir.Schedule, block: Any) -> list[Any]:
    """Return the blocks that read what ``block`` wrote, directly or through others."""
    found: dict[str, Any] = {}
    waiting = list(sch.get_consumers(block))
    while waiting:
        consumer = waiting.pop()
        name = sch.get(consumer).name_hint
        if name not in found:
            found[name] = consumer
            waiting += sch.get_consumers(consumer)
    return list(found.values())


def word_banks(keep: int, banks: int) -> int:
    """Return how many banks to unroll, so that indices come from whole words."""
    most = max(1, 8 // keep)
    return max(d for d in range(1, most + 1) if banks % d == 0)


def lanes(channels: int | None) -> int:
    """Return the widest vector of fp32 that divides ``channels``."""
    return next((v for v in (LANES, 8, 4, 2) if channels and channels % v == 0), 1)


def registers(sch: s_tir.Schedule, anchor: str) -> int:
    """Return the vectors that the register tile of the block called ``anchor`` accumulates in.

    ``anchor``'s reduction is decomposed already: its initial values fill the tile once.
    """
    loops = [sch.get(loop) for loop in sch.get_loops(sch.get_sblock(f"{anchor}_init"))]
    lanes = math.prod(int(x.extent) for x in loops if int(x.kind) == VECTORIZED)
    unrolled = math.prod(int(x.extent) for x in loops if int(x.kind) == UNROLLED)
    return unrolled * math.ceil(lanes / LANES)


def vectorise_tile(
    sch: s_tir.Schedule, block: Any, outer: int, width: Any, tunable: bool = False
) -> None:
    """Vectorise ``block`` over its last loop and unroll the other loops inside ``outer`` ones.

    A tunable trace unrolls loops of one step too: another decision makes them longer.
    """
    *rest, last = sch.get_loops(block)[outer:]
    out, lane = sch.split(last, [None, width])
    sch.vectorize(lane)
    for loop in (*rest, out):
        if tunable or extent(sch, loop) != 1:
            sch.unroll(loop)


def even(sch: s_tir.Schedule, block: Any) -> int | None:
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


def vectorise_last(sch: s_tir.Schedule, block: Any) -> None:
    """Vectorise the last loop of an element-wise block that is still a plain loop nest.

    Where pieces are joined, vectors of two registers ask half as often which piece they meet.
    """
    last = sch.get_loops(block)[-1]
    whole = even(sch, block)
    width = lanes(whole)
    if whole and whole != extent(sch, last) and whole % 32 == 0:
        width = 32
    if width == 1:
        return
    _, lane = sch.split(last, [None, width])
    sch.vectorize(lane)


def finish(sch: s_tir.Schedule) -> None:
    """Vectorise the element-wise blocks that an anchor's rule left alone (what was cut off)."""
    for block in all_blocks(sch):
        loops = sch.get_loops(block)
        plain = len(loops) == len(sch.get(block).iter_vars)
        # A tile can happen to have as many loops as axes; its lanes tell it apart.
        plain = plain and all(int(sch.get(loop).kind) == SERIAL for loop in loops)
        if loops and plain and not is_reduction(sch, block):
            vectorise_last(sch, block)
            parallelise(sch, block)


def parallelise(sch: s_tir.Schedule, block: Any) -> None:
    """Run the outer loops of a large element-wise block on all threads."""
    if flops(sch, block) > 2 * PARALLEL_POINTS:
        loops = sch.get_loops(block)
        tasks(sch, loops[: max(1, len(loops) - 2)])


def tasks(sch: s_tir.Schedule, loops: list[Any]) -> list[Any]:
    """Run ``loops`` as one loop on all threads, unless it would have a single step."""
    if all(extent(sch, loop) == 1 for loop in loops):
        return loops
    fused = sch.fuse(*loops)
    sch.parallel(fused)
    return [fused]


def few_tasks(
    sch: s_tir.Schedule, loops: list[Any], planes: list[Any], target: Target
) -> list[Any]:
    """Run the outermost of ``loops`` on all threads; return what they are now.

    As few as share the work evenly, and only a part of one of ``planes``: weights that stay
    decoded for all rows of a loop would be loaded and decoded again in each step (64 to 384
    channels on 14 x 14, 87.5 % zeros, took a third more time). One thread has nothing to share.
    """
    threads = threads_of(target)
    if threads == 1:
        return loops
    least = TASKS_A_CORE * threads
    taken: list[Any] = []
    rest = list(loops)
    count = 1
    while rest and count < least:
        loop = rest.pop(0)
        steps = extent(sch, loop) or 1
        parts = min(d for d in divisors(steps, steps) if count * d >= least or d == steps)
        if parts < steps and any(loop is plane for plane in planes):
            loop, inner = sch.split(loop, [parts, None])
            rest, steps = [inner, *rest], parts
        taken.append(loop)
        count *= steps
    return [*tasks(sch, taken), *rest]


def share_plane(
    sch: s_tir.Schedule, anchor: Any, lead: list[Any], rows: int, target: Target
) -> list[Any]:
    """Split the last of the leading loops but ``lead[rows]`` into a part for each thread.

    Returns ``[parts, rest]``, or the loop alone where parts are uneven or weights larger than
    activations. Each thread then finds in its own cache what it wrote as its part of the layer
    before; were features shared, half of it would come from another core's.
    """
    axis = max(i for i in range(len(lead)) if i != rows)
    loop = lead[axis]
    threads, steps = threads_of(target), extent(sch, loop)
    if threads == 1 or not steps or steps % threads:
        return [loop]
    block = sch.get(anchor)
    position = block.iter_vars[axis].var
    weights, activations = 0, 0
    for region in (*block.reads, *block.writes):
        extents = region.source.ty.shape
        size = math.prod(int(e) if hasattr(e, "value") else 1 for e in extents)
        used = (v for part in region.region for v in tirx.analysis.undefined_vars(part.min))
        if any(v.same_as(position) for v in used):
            activations += size
        else:
            weights += size
    return [loop] if weights > activations else list(sch.split(loop, [threads, None]))


def number_rows(sch: s_tir.Schedule, block: Any) -> None:
    """Make ``block`` iterate over numbered output rows, as the blocks before it do.

    before: for b, y, x, f --> after: for n, f with ``n = (b * height + y) * width + x``
    """
    extents = tuple(axis.dom.extent for axis in sch.get(block).iter_vars[:-1])
    if len(extents) > 1:
        numbered = tirx.IndexMap.from_func(
            lambda *i: [flat(list(i[:-1]), extents), i[-1]],
            ndim=len(extents) + 1,
            index_dtype="int64",
        )
        sch.transform_block_layout(block, numbered)
