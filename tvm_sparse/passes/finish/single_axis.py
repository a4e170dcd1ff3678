"""A function that does the same at each position of some axes, with one axis for these."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, relax, s_tir, tirx
from tvm.sym import Analyzer

from tvm_sparse.ops.emit import changed_block
from tvm_sparse.ops.marks import OPERATOR, ROWS
from tvm_sparse.ops.tensors.rows import PARTIAL
from tvm_sparse.passes.graph.rewrite import (
    Rewriter,
    op_name,
    same_extent,
    same_shape,
    shape_of,
    shape_of_type,
)
from tvm_sparse.schedules.blocks import SPATIAL, nodes
from tvm_sparse.schedules.variables import placed


@dataclass
class Joined:
    """A function whose tensors of ``parameters`` have one axis for those ``first`` to ``last``."""

    func: tirx.PrimFunc
    first: int
    last: int
    parameters: list[int]
    name: Any = None

    def named(self, name: str) -> ir.GlobalVar:
        """Give the function a name, and return it."""
        self.name = ir.GlobalVar(name)
        relax.expr._update_type(self.name, self.func.ty)
        return self.name

    def called(self, rewriter: Rewriter, call: Any) -> Any:
        """Return the result of the function as that of ``call``."""
        operands = list(call.args[1].fields)
        for i in self.parameters:
            if i < len(operands):
                operands[i] = self._seen(rewriter, operands[i])
        ty = relax.TensorType(self._shape(shape_of(call)), call.ty.dtype)
        args = [self.name, relax.Tuple(operands), *call.args[2:]]
        result = rewriter.emit(relax.Call(call.op, args, call.attrs, [ty]))
        return relax.op.reshape(result, call.ty.shape)

    def _seen(self, rewriter: Rewriter, x: Any) -> Any:
        """Return ``x`` with one axis; what another function made so is taken as it is."""
        shape, made = self._shape(shape_of(x)), rewriter.resolve(x)
        if op_name(made) == "reshape" and same_shape(shape_of(made.args[0]), shape):
            return made.args[0]
        return rewriter.emit(relax.op.reshape(x, shape))

    def _shape(self, shape: Any) -> list[Any]:
        rows = math.prod(shape[self.first : self.last + 1])
        return [*shape[: self.first], rows, *shape[self.last + 1 :]]


def single_axis(func: tirx.PrimFunc) -> Joined | None:
    """Return ``func`` with as many axes joined as possible; ``None`` if there are no two."""
    shape = shape_of_type(func.params[-1].ty)
    if shape is None or not _has_rows(func):
        return None
    last = len(shape) - 2
    for first in range(last):
        extents = shape[first : last + 1]
        if all(isinstance(e, int) for e in extents[1:]):
            return None
        found = _Joiner(func, first, extents).found()
        if found is not None:
            return found
    return None


def _has_rows(func: tirx.PrimFunc) -> bool:
    """Whether a rule makes tiles of the rows of ``func``."""
    if not isinstance(func.body, s_tir.SBlockRealize) or func.body.block.name_hint != "root":
        return False
    annotations = [block.annotations for block in nodes(func.body, s_tir.SBlock)]
    return any(ROWS in a or str(a.get(OPERATOR, "")) == PARTIAL for a in annotations)


class _OtherUseError(Exception):
    """A block does not do the same at each position."""


class _Joiner:
    """Makes one axis of those from ``first`` on, with ``extents``, in each tensor that has them."""

    def __init__(self, func: tirx.PrimFunc, first: int, extents: Sequence[Any]) -> None:
        self.func, self.first, self.count = func, first, len(extents)
        self.extents, self.rows = extents, tirx.Var("rows", "int64")
        held = [*func.params, *func.body.block.alloc_buffers]
        self.new = {b: self._narrow(b) for b in held if self._has_axes(b)}

    def found(self) -> Joined | None:
        """Return the function, ``None`` if positions count for more than places in tensors."""
        root = self.func.body.block
        nests = root.body.seq if isinstance(root.body, tirx.SeqStmt) else [root.body]
        try:
            body = tirx.stmt_seq(*map(self._nest, nests))
        except _OtherUseError:
            return None
        buffers = [self.new.get(buffer, buffer) for buffer in root.alloc_buffers]
        root = changed_block(root, body=body, alloc_buffers=buffers)
        realize = s_tir.SBlockRealize([], tirx.const(True, "bool"), root)
        params = [self.new.get(param, param) for param in self.func.params]
        made = tirx.PrimFunc(params, realize, self.func.ret_type, attrs=self.func.attrs)
        if not _is_closed(made, self.func):
            return None
        places = [i for i, param in enumerate(self.func.params) if param in self.new]
        return Joined(made, self.first, self.first + self.count - 1, places)

    def _has_axes(self, buffer: Any) -> bool:
        shape = shape_of_type(buffer.ty)
        own = [] if shape is None else shape[self.first : self.first + self.count]
        return len(own) == self.count and all(map(same_extent, own, self.extents))

    def _narrow(self, buffer: Any) -> Any:
        shape = self._one(list(buffer.shape), self.rows)
        return tirx.decl_buffer(shape, buffer.dtype, buffer.name)

    def _one(self, axes: list[Any], one: Any) -> list[Any]:
        return [*axes[: self.first], one, *axes[self.first + self.count :]]

    def _nest(self, nest: Any) -> Any:
        """Return the loops around a block with one for those over the axes."""
        loops, inner = [], nest
        while isinstance(inner, tirx.For):
            loops.append(inner)
            inner = inner.body
        if not isinstance(inner, s_tir.SBlockRealize):
            raise _OtherUseError
        axes = self._axes(inner.block)
        if not axes:
            return nest
        values = {a.var: v for a, v in zip(inner.block.iter_vars, inner.iter_values, strict=True)}
        over = [self._loop(loops, values[axis.var]) for axis in axes]
        if len(set(over)) != len(over) or not isinstance(inner.predicate, tirx.IntImm):
            raise _OtherUseError
        number = tirx.Var("row", "int64")
        made: Any = self._realized(inner, axes, number)
        for place, loop in reversed([*enumerate(loops)]):
            if place not in over:
                made = tirx.For(
                    loop.loop_var, loop.min, loop.extent, loop.kind, made, None, loop.annotations
                )
            elif place == min(over):
                made = tirx.For(number, tirx.const(0, "int64"), self.rows, loop.kind, made)
        return made

    def _axes(self, block: Any) -> list[Any]:
        """Return the axes of a block that are places in what it stores; none if it stores else."""
        stores = [x for x in nodes(block, tirx.BufferStore) if x.buffer in self.new]
        if not stores:
            if any(load.source in self.new for load in nodes(block, ir.TensorLoad)):
                raise _OtherUseError
            return []
        places = stores[0].indices[self.first : self.first + self.count]
        found = [axis for place in places for axis in block.iter_vars if axis.var.same_as(place)]
        whole = len(found) == self.count and all(map(_is_whole, found, self.extents))
        if not whole or block.match_buffers or block.alloc_buffers:
            raise _OtherUseError
        return found

    def _loop(self, loops: list[Any], value: Any) -> int:
        """Return which of the loops has ``value`` as its variable, and a whole axis."""
        found = [i for i, loop in enumerate(loops) if loop.loop_var.same_as(value)]
        if not found or not isinstance(loops[found[0]].min, tirx.IntImm):
            raise _OtherUseError
        return found[0]

    def _realized(self, realize: Any, axes: list[Any], number: Any) -> Any:
        """Return a block with one axis, which is ``number``, for ``axes``."""
        block, row = realize.block, tirx.Var("v_row", "int64")
        old, taps = [axis.var for axis in axes], _single(realize.block)

        def alike(indices: Any) -> bool:
            own = indices[self.first : self.first + self.count]
            return all(_without(i, taps).same_as(v) for i, v in zip(own, old, strict=True))

        def loaded(load: Any) -> Any:
            new = self.new.get(load.source)
            if new is None or not alike(load.indices):
                return load
            return tirx.BufferLoad(new, self._one(list(load.indices), row))

        def stored(store: Any) -> Any:
            new = self.new.get(store.buffer)
            if new is None or not alike(store.indices):
                return store
            return tirx.BufferStore(new, store.value, self._one(list(store.indices), row))

        def region(part: Any) -> Any:
            new = self.new.get(part.source)
            return (
                part if new is None else tirx.BufferRegion(new, self._range(part, old, row, taps))
            )

        def changed(body: Any) -> Any:
            body = tvm_ffi.structural_map(body, (ir.TensorLoad, loaded))
            return tvm_ffi.structural_map(body, (tirx.BufferStore, stored))

        one = tirx.IterVar(ir.Range.from_min_extent(_ZERO, self.rows), row, axes[0].iter_type)
        pairs = [*zip(block.iter_vars, realize.iter_values, strict=True)]
        kept = [
            (one, number) if axis.same_as(axes[0]) else (axis, value)
            for axis, value in pairs
            if axis.same_as(axes[0]) or not any(axis.same_as(other) for other in axes)
        ]
        new = changed_block(
            block,
            iter_vars=[axis for axis, _ in kept],
            reads=[region(part) for part in block.reads],
            writes=[region(part) for part in block.writes],
            body=changed(block.body),
            init=None if block.init is None else changed(block.init),
            annotations=self._annotations(block.annotations),
        )
        seen = [x.source for x in nodes(new, ir.TensorLoad)]
        seen += [x.buffer for x in nodes(new, tirx.BufferStore)]
        if any(buffer in self.new for buffer in seen):
            raise _OtherUseError  # a place that is not the block's own
        if any(v.same_as(var) for v in nodes(new, tirx.Var) for var in old):
            raise _OtherUseError
        return s_tir.SBlockRealize([value for _, value in kept], realize.predicate, new)

    def _range(self, part: Any, old: list[Any], row: Any, taps: dict[Any, Any]) -> list[Any]:
        """Return the ranges of a region: of one row, or of all."""
        ranges = list(part.region)
        own = ranges[self.first : self.first + self.count]
        if all(_without(r.min, taps).same_as(var) for r, var in zip(own, old, strict=True)):
            return self._one(ranges, ir.Range.from_min_extent(row, tirx.const(1, "int64")))
        if all(map(same_extent, (_number(r.extent) for r in own), self.extents)):
            return self._one(ranges, ir.Range.from_min_extent(_ZERO, self.rows))
        raise _OtherUseError

    def _annotations(self, annotations: Any) -> dict[str, Any]:
        """Return annotations with the place of the rows' axis among those that are left."""
        if ROWS not in annotations:
            return dict(annotations)
        place = int(annotations[ROWS])
        if not self.first <= place < self.first + self.count:
            raise _OtherUseError
        return {**dict(annotations), ROWS: self.first}


_ZERO = tirx.const(0, "int64")


def _single(block: Any) -> dict[Any, Any]:
    """Return the axes of a block that have one place, as the taps of a pointwise convolution."""
    return {axis.var: 0 for axis in block.iter_vars if same_extent(_number(axis.dom.extent), 1)}


def _without(index: Any, taps: dict[Any, Any]) -> Any:
    """Return an index with zero for ``taps``."""
    return index if isinstance(index, tirx.Var) else Analyzer().simplify(placed(index, taps))


def _number(extent: Any) -> Any:
    return int(extent) if isinstance(extent, tirx.IntImm) else extent


def _is_whole(axis: Any, extent: Any) -> bool:
    """Whether a block's axis is not summed over, and goes from zero to ``extent``."""
    first = isinstance(axis.dom.min, tirx.IntImm) and int(axis.dom.min) == 0
    return (
        int(axis.iter_type) == SPATIAL and first and same_extent(_number(axis.dom.extent), extent)
    )


def _is_closed(func: tirx.PrimFunc, before: tirx.PrimFunc) -> bool:
    """Whether ``func`` uses no extent that only the parameters of ``before`` bring along."""
    lost = _brought(before) - _brought(func)
    shapes = [e for p in func.params for e in shape_of_type(p.ty) or () if not isinstance(e, int)]
    used = [var for part in (func.body, *shapes) for var in nodes(part, tirx.Var)]
    return not lost.intersection(used)


def _brought(func: tirx.PrimFunc) -> set[Any]:
    """Return the extents that parameters bring along, as tensors or as numbers."""
    shapes = [shape_of_type(param.ty) or [param] for param in func.params]
    return {extent for shape in shapes for extent in shape if isinstance(extent, tirx.Var)}
