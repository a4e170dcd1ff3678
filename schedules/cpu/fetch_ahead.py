"""Weights of the next feature tile are on their way while rows pass the present one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.sym import Analyzer

from tvm_sparse.machine.record import Caches
from tvm_sparse.ops.contractions.loop_nest import IMPORT
from tvm_sparse.ops.marks import OPERATOR
from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.blocks import PARALLEL, SERIAL, map_functions, nodes
from tvm_sparse.schedules.variables import placed, uses

LINE = 64
"""Bytes of a cache line."""

MOST_LINES = 12
LEAST_LINES = 1 / 8
"""Lines of an array for each step. With more, they wait for one another; with fewer, so many rows
pass a tile that its first pass does not matter."""

LEAST_USES = 8
"""Rows below which weights are used up as fast as they can come."""

SYMBOLIC = 8
"""Turns that a loop of symbolic extent counts as."""

ACTIVATIONS = "matmul"
"""The operator whose right operand no layer stores: it is in a cache already."""

FETCH = "ts_fetch"
"""Name of the function below."""

SECOND_CACHE = 2
"""LLVM's ``locality`` of what is fetched into the second cache."""

_CODE = f"""
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
define void @{FETCH}(ptr %line) alwaysinline {{
  call void @llvm.prefetch.p0(ptr %line, i32 0, i32 {SECOND_CACHE}, i32 1) #0
  ret void
}}
attributes #0 = {{ nounwind memory(inaccessiblemem: readwrite) }}
"""
"""Asks for a line, and says that this reads nothing: else LLVM, which does not know in the body of
a parallel loop that weights are no sums, would store the sums in each step (four times as slow)."""


@tvm.transform.module_pass(opt_level=0, name="FetchAhead")
class FetchAhead:
    """Ask for the weights of the next feature tile, a few cache lines in each step.

    before: ``for f: for row: for k: tile(f, row, k)``
    after:  ``for f: for row: for k: { prefetch(lines of f + 1); tile(f, row, k) }``

    Otherwise the first row tile of each feature tile waits for weights that come from memory or
    from the last cache. Lines are spread over all steps: asked for at once, they would fill the
    queue of outstanding loads.
    """

    def __init__(self, caches: Caches) -> None:
        self.caches = caches

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with functions that fetch ahead."""
        return map_functions(mod, self._fetching)

    def _fetching(self, func: tirx.PrimFunc) -> tirx.PrimFunc:
        for realize in nodes(func.body, s_tir.SBlockRealize):
            operator = realize.block.annotations.get(OPERATOR, ACTIVATIONS)
            if str(operator) != ACTIVATIONS and realize.block.reads:
                nest = _Nest(func, realize)
                ahead = [stream for stream in nest.streams() if self._pays(stream)]
                if ahead:
                    return _with_fetches(func, nest.walk[-1], ahead)
        return func

    def _pays(self, stream: _Stream) -> bool:
        outside = 2 * stream.size > self.caches.first and stream.uses >= LEAST_USES
        fits = stream.tile < self.caches.second // 2
        return outside and fits and LEAST_LINES <= stream.lines <= MOST_LINES


@dataclass(frozen=True)
class _Stream:
    """An array of weights that is walked tile after tile.

    ``size`` and ``tile`` are in bytes. ``start`` is the first element of the next tile, ``step``
    counts the ``steps`` of a tile. Each weight meets ``uses`` rows.
    """

    buffer: Any
    tile: int
    start: Any
    step: Any
    steps: int
    uses: int

    @property
    def size(self) -> int:
        return b.nbytes(self.buffer)

    @property
    def lines(self) -> float:
        """Cache lines of a tile for each step."""
        return self.tile / LINE / self.steps

    def fetches(self) -> list[Any]:
        """Return the statements of one step; behind the last line there is nothing new to fetch."""
        count, width = math.ceil(self.lines), self.size // b.elements(self.buffer)
        start = tirx.min(self.start, _const((self.size - self.tile) // width))
        last = _const(math.ceil(self.tile / LINE) - 1)
        lines = [tirx.min(self.step * count + i, last) for i in range(count)]
        return [self._fetch(start + line * (LINE // width)) for line in lines]

    def _fetch(self, at: Any) -> Any:
        """Ask for the line of the element ``at``."""
        first = [_const(0)] * (len(self.buffer.shape) - 1)
        address = tirx.address_of(self.buffer[(*first, at)])
        return tirx.Evaluate(tirx.call_extern("void", FETCH, address))


class _Nest:
    """The loops around a contraction's block: ``walk`` are those that are not unrolled."""

    def __init__(self, func: tirx.PrimFunc, realize: Any) -> None:
        self.block = realize.block
        sums = self.block.writes[0].source
        _, *arrays = [r.source for r in self.block.reads if not r.source.same_as(sums)] or [sums]
        self.weights = [a for a in arrays if any(a.same_as(p) for p in func.params)]
        loops = [loop for loop in nodes(func.body, tirx.For) if _holds(loop, realize)]
        self.loops = sorted(loops, key=lambda loop: -len(nodes(loop.body, tirx.For)))
        self.walk = [x for x in self.loops if int(x.kind) in (SERIAL, PARALLEL)]
        axes = list(zip(self.block.iter_vars, realize.iter_values, strict=True))
        self.values = {axis.var: value for axis, value in axes}
        sums = [value for axis, value in axes if int(axis.iter_type) == b.REDUCTION]
        self.summed = [
            loop for loop in self.walk if any(uses(value, loop.loop_var) for value in sums)
        ]
        self.analyzer = Analyzer()
        for loop in self.loops:
            domain = ir.Range.from_min_extent(loop.min, loop.extent)
            self.analyzer.bind(loop.loop_var, domain)

    def streams(self) -> Iterator[_Stream]:
        """Yield the weights that are read tile after tile, each tile by all rows."""
        loads = nodes(self.block.body, ir.TensorLoad)
        for weight in self.weights:
            if all(isinstance(e, tirx.IntImm) for e in weight.shape):
                yield from self._stream(next(x for x in loads if x.source.same_as(weight)))

    def _stream(self, load: Any) -> Iterator[_Stream]:
        """Yield the stream of ``load``, if it has tiles: what one turn of their loop reads.

        Loops around tiles bring other images, those inside rows and the sum. A loop that was fused
        of tiles and rows brings another tile only after some ``turns``.
        """
        offset = self._offset(load)
        read = [x for x in self.loops if uses(offset, x.loop_var)]
        tiles = [x for x in self.walk if x in read and x not in self.summed and _extent(x) > 1]
        if not tiles:
            return
        inside = self.walk[self.walk.index(tiles[0]) :]
        repeats = (x for x in inside if _extent(x) > 1 and (x in self.summed or x not in read))
        end = next(repeats, None)
        *_, tile = [x for x in tiles if end is None or self.walk.index(x) < self.walk.index(end)]
        within = self.loops[self.loops.index(tile) + 1 :]
        rows = math.prod(_extent(x) for x in within if x not in read)
        start = placed(offset, {x.loop_var: 0 for x in within})
        for turns in b.divisors(_extent(tile), _extent(tile)):
            after = placed(start, {tile.loop_var: tile.loop_var + turns})
            length = self.analyzer.simplify(after - start)
            if isinstance(length, tirx.IntImm) and int(length) > 0:
                step, steps = tirx.floormod(tile.loop_var, turns), turns
                for loop in (x for x in self.walk if x in within):
                    step = step * loop.extent + loop.loop_var
                    steps *= _extent(loop)
                width = b.nbytes(load.source) // b.elements(load.source)
                yield _Stream(load.source, int(length) * width, after, step, steps, rows)
                return

    def _offset(self, load: Any) -> Any:
        """Return the first element that ``load`` reads, counted in a row-major array."""
        offset: Any = _const(0)
        for index, extent in zip(load.indices, load.source.shape, strict=True):
            offset = offset * extent + (index.base if isinstance(index, tirx.Ramp) else index)
        return placed(offset, self.values)


def _with_fetches(func: tirx.PrimFunc, at: Any, ahead: list[_Stream]) -> tirx.PrimFunc:
    """Return ``func`` with the fetches of ``ahead`` in each turn of the loop ``at``."""
    fetches = [statement for stream in ahead for statement in stream.fetches()]

    def within(loop: Any) -> Any:
        if not loop.loop_var.same_as(at.loop_var):
            return loop
        body, var = tirx.SeqStmt([*fetches, loop.body]), loop.loop_var
        body = tirx.AttrStmt(_const(0), IMPORT, ir.StringImm(_CODE), body)
        thread, notes = loop.thread_binding, loop.annotations
        return tirx.For(var, loop.min, loop.extent, loop.kind, body, thread, notes, loop.step)

    body = tvm_ffi.structural_map(func.body, (tirx.For, within))
    return tirx.PrimFunc(func.params, body, func.ret_type, attrs=func.attrs)


def _holds(loop: tirx.For, realize: Any) -> bool:
    return any(found.same_as(realize) for found in nodes(loop.body, s_tir.SBlockRealize))


def _extent(loop: tirx.For) -> int:
    return int(loop.extent) if isinstance(loop.extent, tirx.IntImm) else SYMBOLIC


def _const(value: int) -> Any:
    return tirx.const(value, "int64")
