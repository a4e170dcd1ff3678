"""Questions that schedule rules ask about blocks and loops, and steps of all targets."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from typing import Any

import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.s_tir.schedule import LoopRV
from tvm.s_tir.schedule import SBlockRV as BlockRV

from tvm_sparse.base.numerics import bits_of
from tvm_sparse.ops.emit import unravel
from tvm_sparse.ops.marks import OPERATOR, flat

MOST_REPEATED = 64
"""Elements and variables in expressions that are written out in several places."""

MOST_BOUND = 4
"""Variables whose values depend on each other, one through the other, in one expression."""

MOST_ROUNDED = 8
"""Steps of bfloat16 in an expression that is written out where it is read."""

_ARITHMETIC = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Max, tirx.Min)

REDUCTION = 2
SPATIAL = 0
SERIAL = 0
PARALLEL = 1
VECTORIZED = 2
UNROLLED = 3


def map_functions(
    mod: ir.IRModule, change: Callable[[tirx.PrimFunc], tirx.PrimFunc]
) -> ir.IRModule:
    """Return ``mod`` with what ``change`` makes of its functions, those of Relax left alone."""
    result = ir.IRModule(mod.functions, attrs=mod.attrs)
    for name, func in mod.functions_items():
        if isinstance(func, tirx.PrimFunc):
            result[name] = change(func)
    return result


def map_parallel_loops(mod: ir.IRModule, change: Callable[[tirx.For], Any]) -> ir.IRModule:
    """Return ``mod`` with what ``change`` makes of the parallel loops of its functions."""

    def changed(loop: tirx.For) -> Any:
        return change(loop) if int(loop.kind) == PARALLEL else loop

    def rewritten(func: tirx.PrimFunc) -> tirx.PrimFunc:
        body = tvm_ffi.structural_map(func.body, (tirx.For, changed))
        return tirx.PrimFunc(func.params, body, func.ret_type, attrs=func.attrs)

    return map_functions(mod, rewritten)


def divisors(extent: int, most: int) -> list[int]:
    """Return the divisors of ``extent`` up to ``most``."""
    return [d for d in range(1, most + 1) if extent % d == 0]


def extent(sch: s_tir.Schedule, loop: LoopRV) -> Any:
    """Return a loop's static extent, or ``None`` if it is symbolic."""
    value = sch.get(loop).extent
    return int(value) if isinstance(value, tirx.IntImm) else None


def static_extent(loop: tirx.For) -> int:
    """Return the static extent of a loop that begins with zero; 0 of another one."""
    static = isinstance(loop.extent, tirx.IntImm) and isinstance(loop.min, tirx.IntImm)
    return int(loop.extent) if static and int(loop.min) == 0 else 0


def all_blocks(sch: s_tir.Schedule) -> list[BlockRV]:
    """Return the blocks under the root, in order."""
    return list(sch.get_child_blocks(sch.get_sblock("root")))


def marked(sch: s_tir.Schedule, operators: tuple[str, ...]) -> BlockRV:
    """Return the block whose operator mark is one of ``operators``, or ``None``."""
    for block in all_blocks(sch):
        annotations = sch.get(block).annotations
        if OPERATOR in annotations and str(annotations[OPERATOR]) in operators:
            return block
    return None


def is_reduction(sch: s_tir.Schedule, block: BlockRV) -> bool:
    """Whether a block reduces over some axis."""
    return any(int(v.iter_type) == REDUCTION for v in sch.get(block).iter_vars)


def spatial_count(sch: s_tir.Schedule, block: BlockRV) -> int:
    """Return how many of a block's axes are not reduced."""
    return sum(int(v.iter_type) == SPATIAL for v in sch.get(block).iter_vars)


def domain(sch: s_tir.Schedule, block: BlockRV) -> list[str]:
    """Return the extents of a block's spatial axes, comparable."""
    axes = sch.get(block).iter_vars
    return [str(v.dom.extent) for v in axes if int(v.iter_type) == SPATIAL]


def size(sch: s_tir.Schedule, block: BlockRV) -> int:
    """Return the points of a block's spatial axes; symbolic axes count once."""
    axes = sch.get(block).iter_vars
    return _product(v.dom.extent for v in axes if int(v.iter_type) == SPATIAL)


def flops(sch: s_tir.Schedule, block: BlockRV) -> float:
    """Return two operations for each point of a block's domain; symbolic axes count once."""
    return 2.0 * _product(v.dom.extent for v in sch.get(block).iter_vars)


def elements(buffer: Any) -> int:
    """Return the elements of a buffer; symbolic axes count once."""
    return _product(buffer.ty.shape)


def nbytes(buffer: Any) -> int:
    """Return the bytes of a buffer; symbolic axes count once."""
    return elements(buffer) * bits_of(str(buffer.ty.dtype)) // 8


def _product(extents: Iterable[Any]) -> int:
    return math.prod(int(e) if isinstance(e, tirx.IntImm) else 1 for e in extents)


def inline(sch: s_tir.Schedule, keep: tuple[str, ...] = ()) -> None:
    """Inline every element-wise block into its consumers, except ``keep`` and the outputs.

    A chain whose every step reads the one before twice would double at each: it is cut. So is one
    of bfloat16, whose every step is rounded: TVM's passes take twice as long for each, and several
    times as long for each variable in another's value. A number with variables of its own that all
    elements read is computed once.
    """
    for block in all_blocks(sch):
        if sch.get(block).name_hint in keep or is_reduction(sch, block):
            continue
        if _grows(sch, block) or _binds_deeply(sch, block) or _is_shared_number(sch, block):
            continue
        try:
            sch.compute_inline(block)
        except s_tir.ScheduleError:
            continue  # an output, or not element-wise: it stays a loop of its own


def _is_shared_number(sch: s_tir.Schedule, block: BlockRV) -> bool:
    """Whether a block is one number, with variables of its own, that many elements read."""
    if not nodes(sch.get(block).body, tirx.Let) or not _is_one_point(sch, block):
        return False
    return not all(_is_one_point(sch, reader) for reader in sch.get_consumers(block))


def _is_one_point(sch: s_tir.Schedule, block: BlockRV) -> bool:
    extents = [v.dom.extent for v in sch.get(block).iter_vars]
    return all(isinstance(e, tirx.IntImm) and int(e) == 1 for e in extents)


def _grows(sch: s_tir.Schedule, block: BlockRV) -> bool:
    """Whether a block, written out at each place that reads it, is too much code."""
    writes = sch.get(block).writes
    if len(writes) != 1:
        return False
    body, readers = sch.get(block).body, [sch.get(c).body for c in sch.get_consumers(block)]
    steps = (step for kind in _ARITHMETIC for step in nodes(body, kind))
    if readers and sum(str(step.ty.dtype) == "bfloat16" for step in steps) >= MOST_ROUNDED:
        return True
    loads = [load for reader in readers for load in nodes(reader, ir.TensorLoad)]
    places = sum(load.source.same_as(writes[0].source) for load in loads)
    size = len(nodes(body, ir.TensorLoad)) + len(nodes(body, tirx.Let))
    return places > 1 and places * size > MOST_REPEATED


def _binds_deeply(sch: s_tir.Schedule, block: BlockRV) -> bool:
    """Whether a block, written into one that reads it, has too many variables within each other."""
    depth = _depth_of_bindings(sch.get(block).body)
    readers = sch.get_consumers(block) if depth else []
    inner = [_depth_of_bindings(sch.get(reader).body) for reader in readers]
    return any(i and depth + i > MOST_BOUND for i in inner)


def _depth_of_bindings(body: Any) -> int:
    """Return how many variables the value of one depends on, one through the other, and itself."""
    read = {let.var: nodes(let.value, tirx.Var) for let in nodes(body, tirx.Let)}

    @functools.cache
    def depth(var: Any) -> int:
        return 1 + max(map(depth, read[var])) if read.get(var) else int(var in read)

    return max(map(depth, read), default=0)


def nodes(body: Any, wanted: type) -> list[Any]:
    """Return the nodes of a type in ``body``."""
    found: list[Any] = []
    tvm_ffi.structural_walk(body, (wanted, found.append))
    return found


def downstream(sch: s_tir.Schedule, block: BlockRV) -> list[Any]:
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


def number_rows(sch: s_tir.Schedule, block: BlockRV, rows: Sequence[Any] = (None,)) -> None:
    """Make ``block`` iterate over numbered output rows, as the blocks before it do.

    before: for b, y, x, f --> after: for n, f with ``n = (b * height + y) * width + x``

    ``rows`` are the extents of the axes of these blocks before the last one. The first ones may be
    those of ``block``; the extent of a single other one does not matter.
    """
    extents = tuple(axis.dom.extent for axis in sch.get(block).iter_vars[:-1])
    same = takewhile(lambda pair: tvm_ffi.structural_equal(*pair), zip(extents, rows, strict=False))
    plain = len(list(same))
    if plain == len(extents) == len(rows) or len(extents) == 1:
        return
    plain = min(plain, len(rows) - 1)

    def moved(*index: Any) -> list[Any]:
        position = flat(list(index[plain:-1]), extents[plain:])
        return [*index[:plain], *unravel(position, tuple(rows[plain:])), index[-1]]

    numbered = tirx.IndexMap.from_func(moved, ndim=len(extents) + 1, index_dtype="int64")
    sch.transform_block_layout(block, numbered)
