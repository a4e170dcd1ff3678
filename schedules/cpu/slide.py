"""A schedule for a small plane slides over a plane of open extents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.sym import Analyzer

from tvm_sparse.ops.emit import changed_block
from tvm_sparse.schedules.blocks import nodes
from tvm_sparse.schedules.cpu.cores import tasks
from tvm_sparse.schedules.single_bindings import single_bindings
from tvm_sparse.schedules.variables import placed, uses

PATCH = "patch"
"""Name of the block around a patch."""

MOST = 128
"""Most rows or columns of a patch."""

Sizes = Mapping[int, int]
"""By the axis of the output that is open: how much of it a patch has."""


def open_axes(func: tirx.PrimFunc) -> list[int]:
    """Return the spatial axes of the channels-last output of ``func`` whose extents are open."""
    shape = func.params[-1].shape
    return [i for i in range(1, len(shape) - 1) if isinstance(shape[i], tirx.Var)]


def factors(func: tirx.PrimFunc, extent: tirx.Var) -> list[int]:
    """Return numbers by which ``func`` divides ``extent``, of which it is a multiple."""
    divisions = nodes(func.body, tirx.FloorDiv)
    return [int(d.b) for d in divisions if d.a.same_as(extent) and isinstance(d.b, tirx.IntImm)]


def can_slide(func: tirx.PrimFunc, sizes: Sizes, anchors: tuple[str, ...]) -> bool:
    """Whether a definition does at each position of open axes the same.

    Blocks but ``anchors``, which are known to, may use positions as indices only: those of what
    they store, or of tensors alike.
    """
    blocks = nodes(func.body, s_tir.SBlock)
    shape = func.params[-1].shape
    whole = (size % k == 0 for axis, size in sizes.items() for k in factors(func, shape[axis]))
    stored = (store.buffer for store in nodes(func.body, tirx.BufferStore))
    several = any(buffer.same_as(param) for buffer in stored for param in func.params[:-1])
    if several or max(sizes.values()) > MOST or not all(whole):
        return False
    return all(
        _is_plain(block, sizes) for block in blocks if block.name_hint not in (*anchors, "root")
    )


def _is_plain(block: Any, sizes: Sizes) -> bool:
    """Whether positions of open axes are nothing but indices of the same axis."""
    stores = nodes(block.body, tirx.BufferStore)
    loads = nodes(block.body, ir.TensorLoad)
    axes = {i: block.iter_vars[i].var for i in sizes if i < len(block.iter_vars)}
    if len(axes) < len(sizes) or len(stores) != 1:
        return False
    places = [list(stores[0].indices), *(list(load.indices) for load in loads)]
    for axis, var in axes.items():
        own = sum(len(place) > axis and place[axis].same_as(var) for place in places)
        seen = [v for v in nodes(block.body, tirx.Var) if v.same_as(var)]
        if not (places[0][axis].same_as(var) and len(seen) == own):
            return False
    return True


def patch_of(func: tirx.PrimFunc, sizes: Sizes, beyond: int) -> tirx.PrimFunc | None:
    """Return ``func`` for a plane of ``sizes``; ``None`` if another extent is open then.

    Inputs whose open extents are not the output's have ``beyond`` more, for windows.
    """
    shape = func.params[-1].shape
    known = {shape[axis]: size for axis, size in sizes.items()}
    batch, small = shape[0], {}
    if batch in known:
        return None
    for param in func.params:
        if not hasattr(param, "shape"):
            if uses(func.body, param):
                return None
            continue
        extents = list(param.shape)
        for axis, extent in enumerate(extents):
            if isinstance(extent, tirx.IntImm) or extent.same_as(batch):
                continue
            if extent in known:
                extents[axis] = tirx.const(known[extent], "int64")
            elif isinstance(extent, tirx.Var) and len(extents) == len(shape) and axis in sizes:
                extents[axis] = tirx.const(sizes[axis] + beyond, "int64")
            else:
                return None
        if not all(a.same_as(b) for a, b in zip(extents, param.shape, strict=True)):
            small[param] = tirx.decl_buffer(extents, param.dtype, param.name)
    return func.specialize(small)


def slid(func: tirx.PrimFunc, patch: tirx.PrimFunc, sizes: Sizes) -> s_tir.Schedule:
    """Return the schedule ``patch``, of :func:`patch_of`, at all places of the planes of ``func``.

    before: ``for y in 8: for x in 16: Y[y, x] = …X[y + k, x + l]…``
    after:  ``for p in -(-h // 8): for q in -(-w // 16): for y in 8: for x in 16:
    if 8 p + y < h and …: Y[8 p + y, 16 q + x] = …X[min(8 p + y + k, h + 1), …]…``

    What a patch computes beyond the plane is of its last rows and columns, and is not stored.
    Threads share the patches.
    """
    output = func.params[-1]
    analyzer = Analyzer()
    counts = {
        axis: analyzer.simplify(tirx.floordiv(output.shape[axis] + (size - 1), _number(size)))
        for axis, size in sizes.items()
    }
    places = {axis: tirx.Var(f"p{axis}", "int64") for axis in sizes}
    first = {axis: places[axis] * size for axis, size in sizes.items()}
    root = _Moved(func, patch, first).root()
    loops = {axis: tirx.Var(f"i{axis}", "int64") for axis in sizes}
    iters = [
        tirx.IterVar(ir.Range.from_min_extent(_number(0), counts[axis]), places[axis], 0)
        for axis in sizes
    ]
    block = s_tir.SBlock(iters, [], [], PATCH, root.body, None, root.alloc_buffers)
    body: Any = s_tir.SBlockRealize(list(loops.values()), tirx.const(True, "bool"), block)
    for axis in reversed(list(sizes)):
        body = tirx.For(loops[axis], _number(0), counts[axis], 0, body)
    whole = s_tir.SBlockRealize(
        [], tirx.const(True, "bool"), s_tir.SBlock([], [], [], "root", body)
    )
    made = single_bindings(tirx.PrimFunc(func.params, whole, func.ret_type, attrs=func.attrs))
    schedule = s_tir.Schedule(made.with_attr("global_symbol", "main"))
    tasks(schedule, schedule.get_loops(schedule.get_sblock(PATCH)))
    return schedule


class _Moved:
    """A patch's function on the tensors of the whole, ``first`` being where the patch begins."""

    def __init__(self, func: tirx.PrimFunc, patch: tirx.PrimFunc, first: Mapping[int, Any]) -> None:
        self.whole = dict(zip(patch.params, func.params, strict=True))
        self.first, self.body = first, patch.body
        self.small, self.output = patch.params[-1], func.params[-1]

    def root(self) -> Any:
        """Return the root block."""
        block = self.body.block
        body = tvm_ffi.structural_map(block.body, (s_tir.SBlockRealize, self._realized))
        return changed_block(block, body=body)

    def _realized(self, realize: Any) -> Any:
        block = realize.block
        stores = [s for s in nodes(block.body, tirx.BufferStore) if s.buffer.same_as(self.small)]
        values = dict(zip((v.var for v in block.iter_vars), realize.iter_values, strict=True))
        predicate = realize.predicate
        stored: list[Any] = []
        for store in stores:
            stored = list(store.indices)
            for axis, begin in self.first.items():
                inside = begin + placed(stored[axis], values) < self.output.shape[axis]
                predicate = tirx.And(predicate, inside)

        def index(place: Any, extents: Any, old: Any) -> list[Any]:
            found = list(place)
            for axis, begin in self.first.items():
                if axis >= len(found) or extents[axis].same_as(old[axis]):
                    continue
                own = stored and tvm_ffi.structural_equal(found[axis], stored[axis])
                at = begin + found[axis]
                found[axis] = at if own else tirx.min(at, extents[axis] - 1)
            return found

        def loaded(load: Any) -> Any:
            new = self.whole.get(load.source)
            if new is None:
                return load
            return tirx.BufferLoad(new, index(load.indices, new.shape, load.source.shape))

        def written(store: Any) -> Any:
            new = self.whole.get(store.buffer)
            if new is None:
                return store
            return tirx.BufferStore(
                new, store.value, index(store.indices, new.shape, store.buffer.shape)
            )

        def region(old: Any) -> Any:
            new = self.whole.get(old.source)
            if new is None:
                return old
            ranges = [
                ir.Range.from_min_extent(_number(0), new.shape[axis])
                if axis in self.first and not new.shape[axis].same_as(old.source.shape[axis])
                else part
                for axis, part in enumerate(old.region)
            ]
            return tirx.BufferRegion(new, ranges)

        body = tvm_ffi.structural_map(block.body, (ir.TensorLoad, loaded))
        body = tvm_ffi.structural_map(body, (tirx.BufferStore, written))
        fields = {"body": body} | {
            name: [region(r) for r in getattr(block, name)] for name in ("reads", "writes")
        }
        return s_tir.SBlockRealize(realize.iter_values, predicate, changed_block(block, **fields))


def _number(value: int) -> Any:
    return tirx.const(value, "int64")
