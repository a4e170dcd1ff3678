"""A partial last tile begins earlier and overlaps the tile before it, instead of being cut."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.sym import Analyzer

from tvm_sparse.ops.marks import ROWS
from tvm_sparse.schedules.blocks import UNROLLED, VECTORIZED, BlockRV, map_functions, nodes
from tvm_sparse.schedules.variables import placed

OVERLAP = "ts.overlap"
"""Block annotation: a partial tile may do again what the tile before it did; names a group."""


ENOUGH = "ts.enough"
"""Block annotation, along with the other: open extents are those of a tile at least."""


def overlap(sch: s_tir.Schedule, *blocks: BlockRV, enough: bool = False, version: int = 1) -> None:
    """Mark blocks whose last tile may overlap the one before, together; see ``OverlapTiles``.

    Tiles of open extents do, too, if there is ``enough`` of each for a tile. Versions of one
    function whose tiles lie along other axes, or have another number, move apart.
    """
    if any(_may_replace(sch, block) for block in blocks):
        return
    first = sch.get(blocks[0])
    group = f"{first.name_hint} along {first.annotations.get(ROWS, 0)}, {version}"
    for block in blocks:
        sch.annotate(block, OVERLAP, f"{group}, {ENOUGH}" if enough else group)
        if enough:
            sch.annotate(block, ENOUGH, True)


def _may_replace(sch: s_tir.Schedule, block: BlockRV) -> bool:
    """Whether TVM may store what ``block`` computes over what it reads: both lie in the function.

    It does where both have the same index. A tile would then read what the one before it stored.
    """
    if not sch.get_consumers(block):
        return False
    body, producers = sch.get(block).body, sch.get_producers(block)
    inner = [write.source for before in producers for write in sch.get(before).writes]
    stored = [list(store.indices) for store in nodes(body, tirx.BufferStore)]
    return any(
        load.source.same_as(source) and tvm_ffi.structural_equal(list(load.indices), index)
        for load in nodes(body, ir.TensorLoad)
        for source in inner
        for index in stored
    )


@tvm.transform.module_pass(opt_level=0, name="OverlapTiles")
class OverlapTiles:
    """Let the last register tile of marked blocks do whole what it would do in part.

    before: ``for t in 50: for r in 4: rows[4 t + r] if 4 t + r < 197``
    after:  ``for t in 50: for r in 4: rows[min(4 t, 193) + r]``

    Runs on scheduled functions, after everything that schedules. The rows in the overlap are
    computed twice, with the same result. So a rule marks only blocks that start from nothing: their
    accumulators are set in the same tile, and they read none of what they write elsewhere. The
    tile is the part of an index that unrolled and vectorised loops make up. Blocks marked with
    one name move together or not at all: conditions that not all of them have stay.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with fewer conditions."""
        return map_functions(mod, overlapped)


def overlapped(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return ``func`` with its marked blocks rewritten."""
    loops = _Loops()
    groups: dict[str, list[Any]] = defaultdict(list)

    def see(node: Any) -> None:
        if isinstance(node, tirx.For):
            loops.add(node)
        elif OVERLAP in node.block.annotations:
            groups[str(node.block.annotations[OVERLAP])].append(node)

    tvm_ffi.structural_walk(func.body, ((tirx.For, s_tir.SBlockRealize), see))
    common = {name: _common([_shifts(r, loops) for r in group]) for name, group in groups.items()}
    if not any(common.values()):
        return func

    def rewrite(realize: Any) -> Any:
        group = realize.block.annotations.get(OVERLAP)
        return _moved(realize, common[str(group)], loops) if group is not None else realize

    body = tvm_ffi.structural_map(func.body, (s_tir.SBlockRealize, rewrite))
    return tirx.PrimFunc(func.params, body, func.ret_type, attrs=func.attrs)


class _Loops:
    """A function's loops: the extents of those in a tile, and what is known of all variables.

    Fused loops leave indices like ``t % 50 * 4``, which their domain makes ``t * 4``.
    """

    def __init__(self) -> None:
        self.tile: dict[Any, int] = {}
        self.analyzer = Analyzer()

    def add(self, loop: tirx.For) -> None:
        """Remember ``loop``."""
        if not hasattr(loop.extent, "value"):
            return
        self.analyzer.bind(loop.loop_var, tvm.ir.Range.from_min_extent(loop.min, loop.extent))
        if int(loop.kind) in (UNROLLED, VECTORIZED):
            self.tile[loop.loop_var] = int(loop.extent)

    def is_axis(self, value: Any, index: Any) -> bool:
        """Whether the value of a block's axis is the simplified ``index``."""
        return bool(tvm_ffi.structural_equal(self.analyzer.simplify(value), index))


@dataclass(frozen=True)
class _Shift:
    """An index ``start + inner`` that a condition keeps below an extent.

    ``index`` is simplified; ``inner`` counts from zero within the tile; ``latest`` is the last
    start of a whole tile.
    """

    condition: Any
    index: Any
    start: Any
    latest: Any
    inner: Any

    def same(self, other: _Shift) -> bool:
        """Whether two blocks shift alike."""
        mine, theirs = (self.start, self.latest), (other.start, other.latest)
        return all(tvm_ffi.structural_equal(a, b) for a, b in zip(mine, theirs, strict=True))

    def shifted(self) -> Any:
        """Return the index of a tile that never reaches beyond the extent."""
        return tirx.min(self.start, self.latest) + self.inner


def _common(blocks: list[list[_Shift]]) -> list[_Shift]:
    """Return the shifts of the first of several blocks that all others do, too."""
    first, *others = blocks
    return [s for s in first if all(any(s.same(o) for o in shifts) for shifts in others)]


def _moved(realize: Any, allowed: list[_Shift], loops: _Loops) -> Any:
    """Return a block without the conditions that ``allowed`` shifts make true."""
    values, predicate = list(realize.iter_values), None
    shifts = [s for s in _shifts(realize, loops) if any(s.same(other) for other in allowed)]
    for shift in shifts:
        at = next(i for i, v in enumerate(values) if loops.is_axis(v, shift.index))
        values[at] = shift.shifted()
    for term in terms(realize.predicate):
        if not any(shift.condition.same_as(term) for shift in shifts):
            predicate = term if predicate is None else tirx.And(predicate, term)
    return s_tir.SBlockRealize(values, True if predicate is None else predicate, realize.block)


def _shifts(realize: Any, loops: _Loops) -> list[_Shift]:
    """Return what can be shifted in a block: its axes under a condition that a tile makes up."""
    enough = ENOUGH in realize.block.annotations
    conditions = [t for t in terms(realize.predicate) if isinstance(t, tirx.LT)]
    found = [_shift(t, loops) for t in conditions if enough or hasattr(t.b, "value")]
    return [
        shift
        for shift in found
        if shift and any(loops.is_axis(v, shift.index) for v in realize.iter_values)
    ]


def terms(condition: Any) -> Iterator[Any]:
    """Yield the conditions of a conjunction, constants left out."""
    if isinstance(condition, tirx.And):
        yield from terms(condition.a)
        yield from terms(condition.b)
    elif not isinstance(condition, tirx.IntImm):
        yield condition


def _shift(condition: tirx.LT, loops: _Loops) -> _Shift | None:
    """Return the shift of ``index < extent``, or ``None`` if no tile makes the index up."""
    static = hasattr(condition.b, "value")
    index, extent = loops.analyzer.simplify(condition.a), condition.b
    dtype = str(index.ty.dtype)
    start = loops.analyzer.simplify(placed(index, dict.fromkeys(loops.tile, 0)))
    end = placed(index, {var: inner - 1 for var, inner in loops.tile.items()})
    beyond = loops.analyzer.simplify(end - start)
    if not isinstance(beyond, tirx.IntImm) or int(beyond) <= 0:
        return None
    if not static:  # there is enough for a tile
        latest = extent - tirx.const(int(beyond) + 1, dtype)
    elif int(beyond) < int(extent):
        latest = tirx.const(int(extent) - int(beyond) - 1, dtype)
    else:
        return None
    return _Shift(condition, index, start, latest, loops.analyzer.simplify(index - start))
