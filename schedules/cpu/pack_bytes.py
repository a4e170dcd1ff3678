"""Bytes of several vectors are made at once, by instructions that saturate, and looked up so."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import tvm
import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.sym import Analyzer

from tvm_sparse.machine.lookup import ByteTable
from tvm_sparse.machine.pack import PARTS, Pack
from tvm_sparse.machine.vector import LANES, VECTOR_BYTES
from tvm_sparse.ops.bytes.byte_table import Looked
from tvm_sparse.ops.bytes.quantize import Parts
from tvm_sparse.schedules.blocks import (
    SERIAL,
    UNROLLED,
    VECTORIZED,
    map_functions,
    nodes,
    static_extent,
)
from tvm_sparse.schedules.variables import placed, uses

_BINARY = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Max, tirx.Min)
_REINTERPRET = ir.Op.get("tirx.reinterpret")
_INTRINSIC = ir.Op.get("tirx.call_llvm_pure_intrin")

Place = dict[Any, Any]
"""Values of loops: where in a tile a vector is."""


@tvm.transform.module_pass(opt_level=0, name="PackBytes")
class PackBytes:
    """Make the bytes of four vectors at once, and look them up.

    before: ``for i in T.unroll(4): y[64 * j + 16 * i : 64 * j + 16 * i + 16] = bytes(...)``
    after:  ``y[64 * j : 64 * j + 64] = pack(..., ..., ..., ...)``

    Vectors of a register tile may be of several rows; each is stored where it belongs. Packs
    saturate, so that nothing has to be compared. For bounded steps of
    :mod:`~tvm_sparse.ops.bytes.quantize`, and for entries of tables at their bytes
    (:func:`~tvm_sparse.ops.bytes.byte_table.looked_up`), only.
    """

    def __init__(self, pack: Pack | None, table: ByteTable | None = None) -> None:
        self.pack, self.table = pack, table

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with bytes that are made at once."""
        return map_functions(mod, self._packed) if self.pack else mod

    def _packed(self, func: tirx.PrimFunc) -> tirx.PrimFunc:
        inside = {loop.body for loop in nodes(func.body, tirx.For) if _unrolled(loop)}
        body = tvm_ffi.structural_map(
            func.body, (tirx.For, lambda loop: loop if loop in inside else self._stored(loop))
        )
        if body.same_as(func.body):
            return func
        return tirx.PrimFunc(func.params, body, func.ret_type, attrs=func.attrs)

    def _stored(self, loop: tirx.For) -> Any:
        """Return ``loop``, the outermost one of a tile, with stores of several vectors."""
        loops, realize = _tile(loop)
        if not loops or not isinstance(realize, s_tir.SBlockRealize) or not _always(realize):
            return loop
        *outer, inner, lanes = loops
        make = _Blocks(self, realize, lanes.loop_var)
        count, var = static_extent(inner), inner.loop_var
        if count % PARTS and _unrolled(inner):
            blocks = make.all(_places([*outer, inner]))
            return tirx.stmt_seq(*blocks) if blocks else loop
        if count < PARTS:
            return loop
        part = tirx.Var(var.name, str(var.ty.dtype))
        block = make.one([{var: part * PARTS + k} for k in range(PARTS)])
        rest = make.all([{var: n} for n in range(count - count % PARTS, count)])
        if block is None or rest is None:
            return loop
        body = tirx.stmt_seq(_loop(inner, part, count // PARTS, block), *rest)
        for around in reversed(outer):
            body = _loop(around, around.loop_var, static_extent(around), body)
        return body


class _Blocks:
    """Makes blocks that store several vectors of what ``realize`` stores lane by lane."""

    def __init__(self, how: PackBytes, realize: Any, lane: Any) -> None:
        self.how, self.realize, self.lane = how, realize, lane
        self.store = realize.block.body
        value = getattr(self.store, "value", None)
        self.looked = Looked.of(value)
        byte = self.looked.byte if self.looked else value
        self.found = Parts.of(byte) if isinstance(self.store, tirx.BufferStore) else None
        if self.looked and how.table is None:
            self.found = None

    def all(self, places: list[Place]) -> list[Any] | None:
        """Return blocks for all ``places``, ``None`` if there is none for some.

        A single vector is worth no pack of its own, but is looked up.
        """
        if self.found is None or (len(places) == 1 and not self.looked):
            return None
        groups = [places[n : n + PARTS] for n in range(0, len(places), PARTS)]
        blocks = [self.one(group) for group in groups]
        return None if any(block is None for block in blocks) else blocks

    def one(self, group: list[Place]) -> Any | None:
        """Return the block for at most :data:`PARTS` places, if it can be."""
        if self.found is None:
            return None
        vectors = [_Vector(self.realize, self.lane, place) for place in group]
        zero_points = [vector.same(self.found.zero_point) for vector in vectors]
        if not all(tvm_ffi.structural_equal(zero, zero_points[0]) for zero in zero_points):
            return None
        try:
            places = [vector.place(self.store.indices) for vector in vectors]
            parts = [vector.value(self.found.steps) for vector in vectors]
        except _Unknown:
            return None
        body = self._body(parts, zero_points[0], places)
        loads = nodes(body, ir.TensorLoad)
        reads = [_region(load.source, load.indices) for load in loads]
        writes = [_region(self.store.buffer, place) for place in places]
        block = self.realize.block
        return s_tir.SBlockRealize(
            [],
            self.realize.predicate,
            s_tir.SBlock([], reads, writes, block.name_hint, body, annotations=block.annotations),
        )

    def _body(self, parts: list[Any], zero_point: Any, places: list[Any]) -> Any:
        """Return what makes the bytes of ``parts`` and stores each at its place."""
        assert self.how.pack is not None and self.found is not None
        steps = [_vector(part) for part in parts]
        steps += steps[-1:] * (PARTS - len(steps))
        bytes_ = self.how.pack(steps, zero_point, self.found.dtype, self.found.small)
        dtype = f"{self.store.buffer.ty.dtype}x{VECTOR_BYTES}"
        if self.looked:
            assert self.how.table is not None
            index = tirx.reinterpret(f"uint8x{VECTOR_BYTES}", bytes_)
            bytes_ = tirx.reinterpret(dtype, self.how.table(self.looked.entries, index))
        runs = list(_runs(places))
        if len(places) == PARTS and len(runs) == 1:
            return _store(self.store.buffer, bytes_, runs[0][0], PARTS)
        var = tirx.Var("bytes", dtype)
        stores = [
            _store(self.store.buffer, _lanes(var, first, count), place, count)
            for first, (place, count) in zip(
                itertools.accumulate((count for _, count in runs), initial=0), runs, strict=False
            )
        ]
        return tirx.SeqStmt([tirx.Bind(var, bytes_), *stores])


def _tile(loop: tirx.For) -> tuple[list[tirx.For], Any]:
    """Return the nest of loops from ``loop`` on over a tile of vectors, and what it repeats.

    The last one is over the lanes. There are none if it is something else.
    """
    loops = [loop]
    while _unrolled(loop) and isinstance(loop.body, tirx.For) and int(loop.body.kind) != VECTORIZED:
        loop = loop.body
        loops.append(loop)
    lanes = loop.body
    if int(loop.kind) not in (SERIAL, UNROLLED) or not isinstance(lanes, tirx.For):
        return [], None
    if int(lanes.kind) != VECTORIZED or static_extent(lanes) != LANES:
        return [], None
    return [*loops, lanes], lanes.body


def _unrolled(loop: tirx.For) -> bool:
    """Whether a loop is written out: tiles leave those of one step as they are."""
    return static_extent(loop) == 1 or (int(loop.kind) == UNROLLED and static_extent(loop) > 0)


def _places(loops: list[tirx.For]) -> list[Place]:
    """Return the values that loops have together, in their order."""
    variables = [loop.loop_var for loop in loops]
    counts = itertools.product(*(range(static_extent(loop)) for loop in loops))
    return [dict(zip(variables, count, strict=True)) for count in counts]


def _loop(loop: tirx.For, var: Any, count: int, body: Any) -> tirx.For:
    """Return a loop of the kind of ``loop``."""
    bounds = (tirx.const(n, str(var.ty.dtype)) for n in (0, count))
    return tirx.For(var, *bounds, loop.kind, body, None, loop.annotations, loop.step)


def _always(realize: Any) -> bool:
    return isinstance(realize.predicate, tirx.IntImm) and bool(realize.predicate)


class _Unknown(Exception):
    """An expression of an element that has no vector here."""


class _Vector:
    """What a block does with the lanes of one vector."""

    def __init__(self, realize: Any, lane: Any, place: Place) -> None:
        self.lane, self.analyzer = lane, Analyzer()
        bounds = (tirx.const(n, str(lane.ty.dtype)) for n in (0, LANES))
        self.analyzer.bind(lane, ir.Range.from_min_extent(*bounds))
        pairs = zip(realize.block.iter_vars, realize.iter_values, strict=True)
        self.element = {
            axis.var: self.analyzer.simplify(placed(value, place)) for axis, value in pairs
        }
        self.along = [var for var, value in self.element.items() if uses(value, lane)]

    def place(self, indices: Any) -> list[Any]:
        """Return the index of the lanes, given that of an element.

        Raises
        ------
        _Unknown
            They are no neighbours in the tensor.
        """
        *row, last = [self.analyzer.simplify(self.same(index)) for index in indices]
        base = self.analyzer.simplify(last - self.lane)
        if any(uses(index, self.lane) for index in (*row, base)):
            raise _Unknown
        return [*row, tirx.Ramp(base, 1, LANES)]

    def same(self, expr: Any) -> Any:
        """Return ``expr`` of the element at a lane, which may be all of them."""
        return placed(expr, self.element)

    def value(self, expr: Any) -> Any:
        """Return the vector of ``expr``, or the number if all lanes have the same."""
        if not any(uses(expr, var) for var in self.along):
            return self.same(expr)
        if isinstance(expr, ir.TensorLoad):
            return tirx.BufferLoad(expr.source, self.place(expr.indices))
        dtype = f"{expr.ty.dtype}x{LANES}"
        if isinstance(expr, _BINARY):
            a, b = (_vector(self.value(operand)) for operand in (expr.a, expr.b))
            return type(expr)(a, b)
        if isinstance(expr, tirx.Cast):
            return tirx.Cast(dtype, self.value(expr.value))
        if isinstance(expr, ir.Call) and expr.op.same_as(_REINTERPRET):
            return tirx.reinterpret(dtype, self.value(expr.args[0]))
        if isinstance(expr, ir.Call) and expr.op.same_as(_INTRINSIC):
            which, *operands = expr.args
            vectors = [_vector(self.value(operand)) for operand in operands]
            return tirx.call_intrin(dtype, expr.op, which, *vectors)
        raise _Unknown


def _runs(places: list[Any]) -> Iterator[tuple[Any, int]]:
    """Yield the first place of vectors that follow one another in a tensor, and their number."""
    analyzer, first, count = Analyzer(), places[0], 0
    for place in places:
        pairs = zip(place, first, strict=True)
        *row, last = [(getattr(a, "base", a), getattr(b, "base", b)) for a, b in pairs]
        follows = analyzer.can_prove_equal(last[0], last[1] + count * LANES)
        if not follows or not all(analyzer.can_prove_equal(a, b) for a, b in row):
            yield first, count
            first, count = place, 0
        count += 1
    yield first, count


def _store(buffer: Any, value: Any, place: Any, count: int) -> Any:
    """Return the store of ``count`` vectors of lanes from ``place`` on."""
    *row, last = place
    return tirx.BufferStore(buffer, value, [*row, tirx.Ramp(last.base, 1, count * LANES)])


def _lanes(vector: Any, first: int, count: int) -> Any:
    """Return ``count`` of the :data:`PARTS` of a vector."""
    lanes = range(first * LANES, (first + count) * LANES)
    return tirx.Shuffle([vector], [tirx.const(lane, "int32") for lane in lanes])


def _vector(value: Any) -> Any:
    """Return a vector, of the same number if ``value`` is one."""
    return value if int(value.ty.dtype.lanes) > 1 else tirx.Broadcast(value, LANES)


def _region(buffer: Any, indices: Any) -> Any:
    """Return the elements at ``indices``, the last of which may be a ramp."""
    spans = [(i.base, i.lanes) if isinstance(i, tirx.Ramp) else (i, 1) for i in indices]
    return tirx.BufferRegion(buffer, [ir.Range.from_min_extent(i, n) for i, n in spans])
