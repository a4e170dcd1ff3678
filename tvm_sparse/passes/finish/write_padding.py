"""Layers write the borders around their results where the next layer wants them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import tvm
import tvm_ffi
from tvm import ir, relax, s_tir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.ops.marks import BORDERED, int64
from tvm_sparse.passes.graph.padding import padding_of, sides
from tvm_sparse.passes.graph.rewrite import (
    Rewriter,
    count_uses,
    op_name,
    rewrite,
    shape_of,
    shape_of_type,
)
from tvm_sparse.schedules.blocks import PARALLEL, nodes, static_extent
from tvm_sparse.schedules.cpu.slide import PATCH
from tvm_sparse.schedules.variables import placed
from tvm_sparse.schedules.whole_numbers import whole_numbers

INSIDE = "inside"

_FIELDS = (
    *("iter_vars", "reads", "writes", "name_hint", "body"),
    *("init", "alloc_buffers", "match_buffers", "annotations"),
)
"""Of a block, in the order of its constructor."""


@tvm.transform.module_pass(opt_level=0, name="WritePadding")
@dataclass(frozen=True)
class WritePadding:
    """Let the producer of a padded tensor write it with its borders; the copy goes away.

    before: ``y = call_tir(layer, x); p = call_tir(pad, y)`` with ``y`` read by nothing else
    after:  ``p = call_tir(layer_bordered, x)``

    Runs on scheduled functions: the store of a register tile goes to another place, nothing else
    of the schedule changes. Threads that share the layer share its borders: one thread alone would
    fetch most of them from the others' caches, where tensors in the same memory were written or
    read before. ``rules`` names the schedule rule of each function, ``report`` is told
    those of the new ones.
    """

    rules: Mapping[str, str | None] = field(default_factory=dict)
    report: Callable[[str, str | None], None] = lambda name, rule: None

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return the module with fewer copies."""
        uses = count_uses(mod["main"])
        made: dict[tuple[str, tuple[int, ...]], Any] = {}

        def rule(rewriter: Rewriter, call: relax.Call) -> Any | None:
            padding = padding_of(mod, call)
            if padding is None or uses.get(rewriter.original.args[1].fields[0]) != 1:
                return None
            producer = rewriter.resolve(call.args[1].fields[0])
            if op_name(producer) != "call_tir" or isinstance(producer.ty, relax.TupleType):
                return None
            name = producer.args[0].name_hint
            symbols = _unbound(mod[name])
            if (name, padding) not in made:
                func = bordered(mod[name], padding)
                func = func and whole_numbers(func).with_attr(BORDERED, name)
                func = func and _with(func, symbols)
                made[name, padding] = func and rewriter.builder_.add_func(func, f"{name}_bordered")
                if func:
                    self.report(made[name, padding].name_hint, self.rules.get(name))
            target = made[name, padding]
            if not target:
                return None
            extents = dict(zip(mod[name].params[-1].shape, shape_of(producer) or (), strict=True))
            operands = [*producer.args[1].fields, *(extents[symbol] for symbol in symbols)]
            return relax.call_tir(target, operands, out_ty=call.ty)

        return rewrite(mod, rule)


def _unbound(func: tirx.PrimFunc) -> list[tirx.Var]:
    """Return the open extents of the output of ``func`` that none of its other parameters has."""
    *inputs, output = func.params
    bound = {e for p in inputs for e in (shape_of_type(p.ty) or [p])}
    own = dict.fromkeys(output.shape)  # a square has one twice
    return [e for e in own if isinstance(e, tirx.Var) and e not in bound]


def _with(func: tirx.PrimFunc, symbols: list[tirx.Var]) -> tirx.PrimFunc:
    """Return ``func`` with extents as parameters before its output."""
    params = [*func.params[:-1], *symbols, func.params[-1]]
    return tirx.PrimFunc(params, func.body, func.ret_type, attrs=func.attrs)


def definitions(before: tvm.IRModule, after: tvm.IRModule) -> dict[str, tirx.PrimFunc]:
    """Return the functions of ``before`` by their names in ``after``, with borders or without."""
    known = {name.name_hint: func for name, func in before.functions_items()}
    found = {}
    for name, func in after.functions_items():
        attrs = func.attrs or {}
        source = str(attrs[BORDERED]) if BORDERED in attrs else name.name_hint
        if isinstance(known.get(source), tirx.PrimFunc):
            found[name.name_hint] = known[source]
    return found


def bordered(func: tirx.PrimFunc, padding: tuple[int, ...]) -> tirx.PrimFunc | None:
    """Return scheduled ``func`` with borders around its channels-last output.

    ``padding`` is what :data:`~tvm_sparse.ops.marks.PADDING` holds.
    ``None`` if the output is not stored by one element-wise block.
    """
    root, (*inputs, inner) = func.body.block, func.params
    if not isinstance(inner.elem_offset, tirx.IntImm):
        return None  # of a function that is written as a whole, not in blocks
    nested = _is_nested(root.body)
    tasks = 0 if nested else _tasks(root.body)
    outer, copy, borders = _surround(inner, padding, max(tasks, 1))
    if nested:
        body = _moved(root.body, inner, outer, sides(padding[:-1])[0])
        parts = body and [borders, body]
        return parts and _function(func, [*inputs, outer], root, root.alloc_buffers, parts)
    fused = _function(func, [*inputs, outer], root, [*root.alloc_buffers, inner], [root.body, copy])
    schedule = s_tir.Schedule(fused)
    try:
        schedule.reverse_compute_inline(schedule.get_sblock(INSIDE))
    except s_tir.ScheduleError:
        return None
    inlined = schedule.mod["main"]
    root = inlined.body.block
    body = [_among_tasks(borders, root.body)] if tasks else [borders, root.body]
    return _function(inlined, inlined.params, root, root.alloc_buffers, body)


def _is_nested(body: Any) -> bool:
    """Whether ``body`` has versions, or patches, whose blocks lie in blocks."""
    names = {block.name_hint for block in nodes(body, s_tir.SBlock)}
    return isinstance(body, tirx.IfThenElse) or PATCH in names


def _moved(body: Any, inner: Any, outer: Any, before: list[int]) -> Any | None:
    """Return ``body`` that stores into ``outer`` what it stores into ``inner``, borders further.

    It is for functions of several versions and for patches (see ``schedules/cpu/versions.py``,
    ``slide.py``). ``None`` if it reads what it stores.
    """
    if any(inner.same_as(load.source) for load in nodes(body, ir.TensorLoad)):
        return None

    def stored(store: Any) -> Any:
        if not store.buffer.same_as(inner):
            return store
        place = [i + b for i, b in zip(store.indices, before, strict=True)]
        return tirx.BufferStore(outer, store.value, place)

    def region(old: Any) -> Any:
        if not old.source.same_as(inner):
            return old
        ranges = zip(old.region, before, strict=True)
        moved = [ir.Range.from_min_extent(r.min + b, r.extent) for r, b in ranges]
        return tirx.BufferRegion(outer, moved)

    def writing(block: Any) -> Any:
        writes = [region(old) for old in block.writes]
        same = all(new.same_as(old) for new, old in zip(writes, block.writes, strict=True))
        return block if same else _block(block, writes=writes)

    moved = ((tirx.BufferStore, stored), (s_tir.SBlock, writing))
    for change in moved:
        body = tvm_ffi.structural_map(body, change)
    return body


def _block(block: Any, **changed: Any) -> s_tir.SBlock:
    """Return ``block`` with other fields."""
    return s_tir.SBlock(*(changed.get(name, getattr(block, name)) for name in _FIELDS))


def _tasks(body: Any) -> int:
    """Return the steps of the parallel loop that ``body`` is; 0 if it is something else."""
    shared = isinstance(body, tirx.For) and int(body.kind) == PARALLEL
    return static_extent(body) if shared else 0


def _among_tasks(borders: tirx.For, loop: tirx.For) -> tirx.For:
    """Return ``loop`` with each step of ``borders`` in front of its own."""
    step = placed(borders.body, {borders.loop_var: loop.loop_var})
    body = tirx.SeqStmt([step, loop.body])
    return tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, body, None, loop.annotations)


def _surround(inner: Any, padding: tuple[int, ...], steps: int) -> tuple[Any, Any, tirx.For]:
    """Return a buffer with borders around ``inner``, a copy into it, and what fills the borders.

    The borders of the first spatial axis go all along the others; those of each later axis are
    between the borders of the axes before it. A loop of ``steps`` fills them: the former in its
    first and its last step, a part of the others in each.
    """
    *widths, value = padding
    rank = len(widths) // 2
    before, after = sides(widths)
    extents = list(inner.shape)
    whole = [b + e + a for b, e, a in zip(before, extents, after, strict=True)]
    with IRBuilder() as builder, T.prim_func(is_private=True, s_tir=True):
        T.func_name("main")
        outer = T.arg("P", T.Buffer(int64(tuple(whole)), inner.dtype))
        with T.sblock("root"):
            with T.serial(0, tirx.const(steps, "int64")) as step:
                for axis in range(1, rank + 1):
                    behind = before[axis] + extents[axis]
                    for width, start, own in (
                        (before[axis], 0, 0),
                        (after[axis], behind, steps - 1),
                    ):
                        place = [*before[:axis], start, *[0] * (len(whole) - axis - 1)]
                        border = (*extents[:axis], width, *whole[axis + 1 :])
                        if axis > 1:
                            _fill(outer, border, place, value, (step, steps))
                        elif width:
                            with T.If(step == own), T.Then():
                                _fill(outer, border, place, value)
            with T.grid(*inner.shape) as axes, T.sblock(INSIDE):
                index = list(T.axis.remap("S" * len(extents), axes))
                moved = [i + b for i, b in zip(index, before, strict=True)]
                T.reads(inner[tuple(index)])
                T.writes(outer[tuple(moved)])
                T.buffer_store(outer, inner[tuple(index)], moved)
    borders, copy = builder.get().body.block.body.seq
    return outer, copy, borders


def _fill(
    outer: Any,
    extents: tuple[Any, ...],
    start: list[Any],
    value: int,
    part: tuple[Any, int] | None = None,
) -> None:
    """Emit ``value`` over a part of the buffer.

    ``part`` is a step and their number: each takes its share of the axis behind the images. Of
    more steps than rows, those that take one are apart: a thread has steps side by side.
    """
    if any(isinstance(e, int) and e == 0 for e in extents):
        return
    domains = int64(extents)
    loops = list(domains)
    apart = 1
    if part:
        rows = extents[1]
        apart = max(1, part[1] // int(rows)) if isinstance(rows, int | tirx.IntImm) else 1
        loops[1] = tirx.floordiv(domains[1] + (part[1] - 1), part[1])
    with T.grid(*loops) as axes, T.sblock("border"):
        places = list(axes)
        if part:
            step, rest = tirx.floordiv(part[0], apart), tirx.floormod(part[0], apart)
            places[1] = step * loops[1] + axes[1]
            T.where(tirx.And(rest == 0, places[1] < domains[1]))
        inside = [T.axis.spatial(n, place) for n, place in zip(domains, places, strict=True)]
        index = [i + first for i, first in zip(inside, start, strict=True)]
        T.reads()
        T.writes(outer[tuple(index)])
        T.buffer_store(outer, tirx.const(value, outer.dtype), index)


def _function(
    func: tirx.PrimFunc, params: Any, root: Any, buffers: Any, body: list[Any]
) -> tirx.PrimFunc:
    """Return ``func`` with other parameters, buffers of the root block and statements."""
    block = _block(root, body=tirx.stmt_seq(*body), alloc_buffers=buffers)
    realize = s_tir.SBlockRealize([], tirx.const(True, "bool"), block)
    return tirx.PrimFunc(params, realize, func.ret_type, attrs=func.attrs)
