"""Bytes of several vectors are stored at once, by instructions that saturate."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.sym import Analyzer

from tvm_sparse.machine.pack import PARTS, Pack
from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.quantise import taken_apart
from tvm_sparse.schedules.blocks import SERIAL, UNROLLED, VECTORIZED, map_functions, nodes
from tvm_sparse.schedules.variables import placed, uses

_BINARY = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Max, tirx.Min)
_REINTERPRET = ir.Op.get("tirx.reinterpret")


@tvm.transform.module_pass(opt_level=0, name="PackBytes")
class PackBytes:
    """Store the bytes of four vectors as one.

    before: ``for i in T.unroll(4): y[64 * j + 16 * i : 64 * j + 16 * i + 16] = bytes(...)``
    after:  ``y[64 * j : 64 * j + 64] = pack(..., ..., ..., ...)``

    Packs saturate, so that nothing has to be compared. For bounded steps of
    :mod:`~tvm_sparse.ops.quantise` only.
    """

    def __init__(self, pack: Pack | None) -> None:
        self.pack = pack

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with bytes that are stored at once."""
        return map_functions(mod, self._packed) if self.pack else mod

    def _packed(self, func: tirx.PrimFunc) -> tirx.PrimFunc:
        body = tvm_ffi.structural_map(func.body, (tirx.For, self._stored))
        if body.same_as(func.body):
            return func
        return tirx.PrimFunc(func.params, body, func.ret_type, attrs=func.attrs)

    def _stored(self, loop: tirx.For) -> Any:
        """Return the store of as many vectors as ``loop`` has, if it is one of bytes."""
        vectors = loop.body
        if int(loop.kind) not in (SERIAL, UNROLLED) or not isinstance(vectors, tirx.For):
            return loop
        realize, count = vectors.body, _extent(loop)
        whole = count % PARTS == 0 and _extent(vectors) == LANES
        if int(vectors.kind) != VECTORIZED or not whole or count == 0:
            return loop
        if not isinstance(realize, s_tir.SBlockRealize) or not _always(realize):
            return loop
        part = tirx.Var(loop.loop_var.name, str(loop.loop_var.ty.dtype))
        block = _Wide(realize, loop.loop_var, part * PARTS, vectors.loop_var, self.pack).block()
        if block is None:
            return loop
        zero, extent = loop.min, tirx.const(count // PARTS, str(part.ty.dtype))
        return tirx.For(part, zero, extent, loop.kind, block, None, loop.annotations, loop.step)


def _extent(loop: tirx.For) -> int:
    """Return the static extent of a loop that begins with zero; 0 of another one."""
    static = isinstance(loop.extent, tirx.IntImm) and isinstance(loop.min, tirx.IntImm)
    return int(loop.extent) if static and int(loop.min) == 0 else 0


def _always(realize: Any) -> bool:
    return isinstance(realize.predicate, tirx.IntImm) and bool(realize.predicate)


class _Unknown(Exception):
    """An expression of a lane that has no vector here."""


class _Wide:
    """The block of ``realize`` with :data:`PARTS` vectors in each step.

    ``inner`` and ``lane`` are the variables of the loops over vectors and lanes; vectors begin with
    number ``first``.
    """

    def __init__(self, realize: Any, inner: Any, first: Any, lane: Any, pack: Pack | None) -> None:
        self.realize, self.inner, self.first, self.pack = realize, inner, first, pack
        self.lane, self.analyzer = lane, Analyzer()
        self.analyzer.bind(lane, ir.Range.from_min_extent(_like(0, lane), _like(LANES, lane)))
        self.size = PARTS * LANES

    def block(self) -> Any:
        """Return the block in its place, or ``None`` if it does not store bounded bytes so."""
        store = self.realize.block.body
        found = taken_apart(store.value) if isinstance(store, tirx.BufferStore) else None
        start = self._start() if found else None
        if found is None or start is None:
            return None
        steps, zero, dtype = found
        try:
            parts = [self._value(steps, part) for part in range(PARTS)]
            places = [self._place(store.indices, part) for part in range(PARTS)]
        except _Unknown:
            return None
        *row, first = places[0]
        assert self.pack is not None
        bytes_ = self.pack([_wide(part) for part in parts], zero, dtype)
        place = [*row, tirx.Ramp(first.base, 1, self.size)]
        return self._placed(start, parts, tirx.BufferStore(store.buffer, bytes_, place))

    def _start(self) -> Any:
        """Return which group of vectors comes first, if they are neighbours along one axis."""
        block, values = self.realize.block, self.realize.iter_values
        varying = [i for i, v in enumerate(values) if uses(v, self.lane) or uses(v, self.inner)]
        if len(varying) != 1:
            return None
        (self.at,) = varying
        value, self.axis = values[self.at], block.iter_vars[self.at]
        begin = placed(value, {self.lane: 0, self.inner: 0})
        neighbours = begin + self.inner * LANES + self.lane
        start = begin + self.first * LANES
        static = isinstance(self.axis.dom.extent, tirx.IntImm)
        whole = static and self.analyzer.can_prove_equal(tirx.floormod(start, self.size), 0)
        if not whole or not self.analyzer.can_prove_equal(value, neighbours):
            return None
        self.group = tirx.Var(self.axis.var.name, str(self.axis.var.ty.dtype))
        groups = -(-int(self.axis.dom.extent) // self.size)
        self.domain = ir.Range.from_min_extent(_like(0, self.group), _like(groups, self.group))
        self.analyzer.bind(self.group, self.domain)
        return self.analyzer.simplify(tirx.floordiv(start, self.size))

    def _value(self, expr: Any, part: int) -> Any:
        """Return the vector of ``expr``, or the number if all lanes have the same."""
        if not uses(expr, self.axis.var):
            return expr
        if isinstance(expr, ir.TensorLoad):
            return tirx.BufferLoad(expr.source, self._place(expr.indices, part))
        dtype = f"{expr.ty.dtype}x{LANES}"
        if isinstance(expr, _BINARY):
            return type(expr)(_wide(self._value(expr.a, part)), _wide(self._value(expr.b, part)))
        if isinstance(expr, tirx.Cast):
            return tirx.Cast(dtype, self._value(expr.value, part))
        if isinstance(expr, ir.Call) and expr.op.same_as(_REINTERPRET):
            return tirx.reinterpret(dtype, self._value(expr.args[0], part))
        raise _Unknown

    def _place(self, indices: Any, part: int) -> list[Any]:
        """Return the index of a vector of neighbours, given that of an element."""
        feature = self.group * self.size + part * LANES + self.lane
        *row, last = [
            self.analyzer.simplify(placed(index, {self.axis.var: feature})) for index in indices
        ]
        base = self.analyzer.simplify(last - self.lane)
        if any(uses(index, self.lane) for index in (*row, base)):
            raise _Unknown
        return [*row, tirx.Ramp(base, 1, LANES)]

    def _placed(self, start: Any, parts: list[Any], store: Any) -> Any:
        """Return the new block at ``start``, which counts groups of vectors."""
        block = self.realize.block
        axes, values = list(block.iter_vars), list(self.realize.iter_values)
        axes[self.at] = tirx.IterVar(self.domain, self.group, self.axis.iter_type)
        values[self.at] = start
        loads = [load for part in parts for load in nodes(part, ir.TensorLoad)]
        reads = [_region(load.source, load.indices) for load in loads]
        writes = [_region(store.buffer, store.indices)]
        name, notes = block.name_hint, block.annotations
        wide = s_tir.SBlock(axes, reads, writes, name, store, annotations=notes)
        return s_tir.SBlockRealize(values, self.realize.predicate, wide)


def _wide(value: Any) -> Any:
    """Return a vector, of the same number if ``value`` is one."""
    return value if int(value.ty.dtype.lanes) > 1 else tirx.Broadcast(value, LANES)


def _region(buffer: Any, indices: Any) -> Any:
    """Return the elements at ``indices``, the last of which may be a ramp."""
    spans = [(i.base, i.lanes) if isinstance(i, tirx.Ramp) else (i, 1) for i in indices]
    return tirx.BufferRegion(buffer, [ir.Range.from_min_extent(i, n) for i, n in spans])


def _like(value: int, var: Any) -> Any:
    return tirx.const(value, str(var.ty.dtype))
