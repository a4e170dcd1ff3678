"""A partial last tile begins earlier and overlaps the tile before it, instead of being cut."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.sym import Analyzer

from tvm_sparse.schedules.cpu.blocks import OVERLAP, UNROLLED, VECTORIZED


@tvm.transform.module_pass(opt_level=0, name="OverlapTiles")
class OverlapTiles:
    """Let the last register tile of marked blocks do whole what it would do in part.

    before: ``for t in 50: for r in 4: rows[4 t + r] if 4 t + r < 197``
    after:  ``for t in 50: for r in 4: rows[min(4 t, 193) + r]``

    Runs on scheduled functions, after everything that schedules. The rows in the overlap are
    computed twice, with the same result, so a rule marks only blocks that start from nothing
    (their accumulators are set in the same tile) and read none of what they write elsewhere. The
    tile is the part of an index that unrolled and vectorised loops make up. Blocks marked with
    one name move together or not at all: conditions that not all of them have stay.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with fewer conditions."""
        result = tvm.IRModule(mod.functions, attrs=mod.attrs)
        for name, func in mod.functions_items():
            if isinstance(func, tirx.PrimFunc):
                result[name] = overlapped(func)
        return result


def overlapped(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return ``func`` with its marked blocks rewritten."""
    tile: dict[Any, int] = {}
    groups: dict[str, list[Any]] = defaultdict(list)

    def see(node: Any) -> None:
        if isinstance(node, tirx.For):
            if int(node.kind) in (UNROLLED, VECTORIZED) and hasattr(node.extent, "value"):
                tile[node.loop_var] = int(node.extent)
        elif OVERLAP in node.block.annotations:
            groups[str(node.block.annotations[OVERLAP])].append(node)

    tvm_ffi.structural_walk(func.body, ((tirx.For, s_tir.SBlockRealize), see))
    common = {name: _common([_shifts(r, tile) for r in group]) for name, group in groups.items()}
    if not any(common.values()):
        return func

    def rewrite(realize: Any) -> Any:
        group = realize.block.annotations.get(OVERLAP)
        return _moved(realize, common[str(group)], tile) if group is not None else realize

    body = tvm_ffi.structural_map(func.body, (s_tir.SBlockRealize, rewrite))
    return tirx.PrimFunc(func.params, body, func.ret_type, attrs=func.attrs)


@dataclass(frozen=True)
class _Shift:
    """An index ``start + inner`` that a condition keeps below an extent.

    ``inner`` counts from zero within the tile; ``latest`` is the last start of a whole tile.
    """

    condition: Any
    index: Any
    start: Any
    latest: Any

    def same(self, other: _Shift) -> bool:
        """Whether two blocks shift alike."""
        mine, theirs = (self.start, self.latest), (other.start, other.latest)
        return all(tvm_ffi.structural_equal(a, b) for a, b in zip(mine, theirs, strict=True))

    def shifted(self) -> Any:
        """Return the index of a tile that never reaches beyond the extent."""
        return tirx.min(self.start, self.latest) + Analyzer().simplify(self.index - self.start)


def _common(blocks: list[list[_Shift]]) -> list[_Shift]:
    """Return the shifts of the first of several blocks that all others do, too."""
    first, *others = blocks
    return [s for s in first if all(any(s.same(o) for o in shifts) for shifts in others)]


def _moved(realize: Any, allowed: list[_Shift], tile: dict[Any, int]) -> Any:
    """Return a block without the conditions that ``allowed`` shifts make true."""
    values, predicate = list(realize.iter_values), None
    shifts = [s for s in _shifts(realize, tile) if any(s.same(other) for other in allowed)]
    for shift in shifts:
        at = next(i for i, v in enumerate(values) if tvm_ffi.structural_equal(v, shift.index))
        values[at] = shift.shifted()
    for term in _terms(realize.predicate):
        if not any(shift.condition.same_as(term) for shift in shifts):
            predicate = term if predicate is None else tirx.And(predicate, term)
    return s_tir.SBlockRealize(values, True if predicate is None else predicate, realize.block)


def _shifts(realize: Any, tile: dict[Any, int]) -> list[_Shift]:
    """Return what can be shifted in a block: its axes under a condition that a tile makes up."""
    found = [_shift(term, tile) for term in _terms(realize.predicate)]
    return [
        shift
        for shift in found
        if shift and any(tvm_ffi.structural_equal(v, shift.index) for v in realize.iter_values)
    ]


def _terms(condition: Any) -> Iterator[Any]:
    """Yield the conditions of a conjunction, constants left out."""
    if isinstance(condition, tirx.And):
        yield from _terms(condition.a)
        yield from _terms(condition.b)
    elif not isinstance(condition, tirx.IntImm):
        yield condition


def _shift(condition: Any, tile: dict[Any, int]) -> _Shift | None:
    """Return the shift of ``index < extent``, or ``None`` if no tile makes the index up."""
    if not isinstance(condition, tirx.LT) or not hasattr(condition.b, "value"):
        return None
    index, extent, analyzer = condition.a, int(condition.b), Analyzer()
    dtype = str(index.ty.dtype)

    def at(last: bool) -> Any:
        def place(var: Any) -> Any:
            return tirx.const(last * (tile[var] - 1), dtype) if var in tile else var

        return tvm_ffi.structural_map(index, (tirx.Var, place))

    start = analyzer.simplify(at(last=False))
    beyond = analyzer.simplify(at(last=True) - start)
    if not hasattr(beyond, "value") or not 0 < int(beyond) < extent:
        return None
    return _Shift(condition, index, start, tirx.const(extent - int(beyond) - 1, dtype))
