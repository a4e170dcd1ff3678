"""Bytes of several vectors are stored at once, by instructions that saturate."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.sym import Analyzer

from tvm_sparse.machine.pack import PARTS, Pack
from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.quantise import Parts
from tvm_sparse.schedules.blocks import SERIAL, UNROLLED, VECTORIZED, map_functions, nodes
from tvm_sparse.schedules.variables import placed, uses

_BINARY = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Max, tirx.Min)
WIDE = PARTS * LANES
"""Bytes of a vector."""

_REINTERPRET = ir.Op.get("tirx.reinterpret")
_INTRINSIC = ir.Op.get("tirx.call_llvm_pure_intrin")


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
        """Return ``loop`` with stores of several vectors, if it is one of bytes."""
        vectors = loop.body
        if int(loop.kind) not in (SERIAL, UNROLLED) or not isinstance(vectors, tirx.For):
            return loop
        realize, count = vectors.body, _extent(loop)
        if int(vectors.kind) != VECTORIZED or _extent(vectors) != LANES or count < PARTS:
            return loop
        if not isinstance(realize, s_tir.SBlockRealize) or not _always(realize):
            return loop
        part = tirx.Var(loop.loop_var.name, str(loop.loop_var.ty.dtype))
        block = self._block(realize, {loop.loop_var: part * PARTS, vectors.loop_var: 0})
        if block is None:
            return loop
        packed = _loop(loop, part, 0, count // PARTS, block)
        if count % PARTS == 0:
            return packed
        rest = _loop(loop, loop.loop_var, count - count % PARTS, count % PARTS, loop.body)
        return tirx.SeqStmt([packed, rest])

    def _block(self, realize: Any, first: dict[Any, Any]) -> Any:
        """Return the block with :data:`PARTS` vectors, ``None`` if it does not store bounded bytes.

        ``first`` are the loops over vectors and lanes, with their values for the first element.
        """
        store = realize.block.body
        found = Parts.of(store.value) if isinstance(store, tirx.BufferStore) else None
        at = _axis(realize, *first) if found else None
        if found is None or at is None:
            return None
        wide = _Wide(realize.block.iter_vars[at])
        start = placed(realize.iter_values[at], first)
        if not wide.analyzer.can_prove_equal(tirx.floormod(start, WIDE), 0):
            return None
        try:
            place = wide.place(store.indices)
            parts = [wide.value(found.steps, part) for part in range(PARTS)]
        except _Unknown:
            return None
        assert self.pack is not None
        steps = [_vector(part) for part in parts]
        bytes_ = self.pack(steps, found.zero_point, found.dtype, found.small)
        values = list(realize.iter_values)
        values[at] = wide.analyzer.simplify(tirx.floordiv(start, WIDE))
        block = wide.block(realize.block, at, tirx.BufferStore(store.buffer, bytes_, place), parts)
        return s_tir.SBlockRealize(values, realize.predicate, block)


def _loop(loop: tirx.For, var: Any, begin: int, count: int, body: Any) -> tirx.For:
    """Return a loop of the kind of ``loop``."""
    bounds = (tirx.const(n, str(var.ty.dtype)) for n in (begin, count))
    return tirx.For(var, *bounds, loop.kind, body, None, loop.annotations, loop.step)


def _extent(loop: tirx.For) -> int:
    """Return the static extent of a loop that begins with zero; 0 of another one."""
    static = isinstance(loop.extent, tirx.IntImm) and isinstance(loop.min, tirx.IntImm)
    return int(loop.extent) if static and int(loop.min) == 0 else 0


def _always(realize: Any) -> bool:
    return isinstance(realize.predicate, tirx.IntImm) and bool(realize.predicate)


def _axis(realize: Any, inner: Any, lane: Any) -> int | None:
    """Return the axis of a block along which the elements of a tile's vectors are neighbours."""
    values, axes = realize.iter_values, realize.block.iter_vars
    varying = [i for i, v in enumerate(values) if uses(v, lane) or uses(v, inner)]
    if len(varying) != 1 or not isinstance(axes[varying[0]].dom.extent, tirx.IntImm):
        return None
    value = values[varying[0]]
    neighbours = placed(value, {inner: 0, lane: 0}) + inner * LANES + lane
    return varying[0] if Analyzer().can_prove_equal(value, neighbours) else None


class _Unknown(Exception):
    """An expression of an element that has no vector here."""


class _Wide:
    """What a block does with ``axis``, for :data:`WIDE` neighbours of it at a time.

    ``group`` counts these along the axis.
    """

    def __init__(self, axis: Any) -> None:
        self.axis, self.analyzer = axis, Analyzer()
        groups = -(-int(axis.dom.extent) // WIDE)
        self.group, self.domain = self._counted(axis.var.name, groups)
        self.lanes = {count: self._counted("lane", count)[0] for count in (LANES, WIDE)}

    def _counted(self, name: str, count: int) -> tuple[Any, Any]:
        """Return a variable below ``count``, and its domain."""
        dtype = str(self.axis.var.ty.dtype)
        var, ends = tirx.Var(name, dtype), (tirx.const(n, dtype) for n in (0, count))
        domain = ir.Range.from_min_extent(*ends)
        self.analyzer.bind(var, domain)
        return var, domain

    def place(self, indices: Any, first: int = 0, count: int = WIDE) -> list[Any]:
        """Return the index of ``count`` neighbours from ``first`` on, given that of an element.

        Raises
        ------
        _Unknown
            They are no neighbours in the tensor.
        """
        lane = self.lanes[count]
        element = {self.axis.var: self.group * WIDE + first + lane}
        *row, last = [self.analyzer.simplify(placed(index, element)) for index in indices]
        base = self.analyzer.simplify(last - lane)
        if any(uses(index, lane) for index in (*row, base)):
            raise _Unknown
        return [*row, tirx.Ramp(base, 1, count)]

    def value(self, expr: Any, part: int) -> Any:
        """Return the vector of ``expr``, or the number if all lanes have the same."""
        if not uses(expr, self.axis.var):
            return expr
        if isinstance(expr, ir.TensorLoad):
            return tirx.BufferLoad(expr.source, self.place(expr.indices, part * LANES, LANES))
        dtype = f"{expr.ty.dtype}x{LANES}"
        if isinstance(expr, _BINARY):
            a, b = (_vector(self.value(operand, part)) for operand in (expr.a, expr.b))
            return type(expr)(a, b)
        if isinstance(expr, tirx.Cast):
            return tirx.Cast(dtype, self.value(expr.value, part))
        if isinstance(expr, ir.Call) and expr.op.same_as(_REINTERPRET):
            return tirx.reinterpret(dtype, self.value(expr.args[0], part))
        if isinstance(expr, ir.Call) and expr.op.same_as(_INTRINSIC):
            which, *operands = expr.args
            vectors = [_vector(self.value(operand, part)) for operand in operands]
            return tirx.call_intrin(dtype, expr.op, which, *vectors)
        raise _Unknown

    def block(self, block: Any, at: int, store: Any, parts: list[Any]) -> Any:
        """Return ``block`` with ``store`` of ``parts``, its axis ``at`` counted in groups."""
        axes = list(block.iter_vars)
        axes[at] = tirx.IterVar(self.domain, self.group, self.axis.iter_type)
        loads = [load for part in parts for load in nodes(part, ir.TensorLoad)]
        reads = [_region(load.source, load.indices) for load in loads]
        writes = [_region(store.buffer, store.indices)]
        name, notes = block.name_hint, block.annotations
        return s_tir.SBlock(axes, reads, writes, name, store, annotations=notes)


def _vector(value: Any) -> Any:
    """Return a vector, of the same number if ``value`` is one."""
    return value if int(value.ty.dtype.lanes) > 1 else tirx.Broadcast(value, LANES)


def _region(buffer: Any, indices: Any) -> Any:
    """Return the elements at ``indices``, the last of which may be a ramp."""
    spans = [(i.base, i.lanes) if isinstance(i, tirx.Ramp) else (i, 1) for i in indices]
    return tirx.BufferRegion(buffer, [ir.Range.from_min_extent(i, n) for i, n in spans])
