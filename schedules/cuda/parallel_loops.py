"""Loops that are said to be parallel are numbered by threads."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from tvm_sparse.ops.marks import INDEPENDENT, STEP
from tvm_sparse.schedules.blocks import PARALLEL, map_functions, nodes
from tvm_sparse.schedules.cuda.scalar_lanes import scalar_lanes
from tvm_sparse.schedules.rule import is_written
from tvm_sparse.schedules.variables import placed

THREADS = 64
"""Threads of a block: such functions use few registers and no shared memory."""

_THREAD_BINDING, _THREAD_INDEX = 4, 1


@tvm.transform.module_pass(opt_level=0, name="BindParallelLoops")
class BindParallelLoops:
    """Bind parallel loops to blocks and threads.

    before: ``for i in T.parallel(n)`` --> after: ``i = blockIdx.x * 64 + threadIdx.x``

    Without threads, TVM takes a function for one of the host, where device memory is out of reach:
    what is written without a parallel loop is the work of one thread.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` without parallel loops."""
        return map_functions(mod, _threaded)


def _threaded(func: tirx.PrimFunc) -> tirx.PrimFunc:
    body = tvm_ffi.structural_map(func.body, (tirx.For, _bound))
    found = tirx.PrimFunc(func.params, body, func.ret_type, attrs=func.attrs)
    if not is_written(found) or _has_step(body) or any(map(_is_bound, nodes(body, tirx.For))):
        return found
    return tirx.PrimFunc(func.params, _alone(body), func.ret_type, attrs=func.attrs)


def _has_step(body: Any) -> bool:
    return any(STEP in block.annotations for block in nodes(body, s_tir.SBlock))


def _is_bound(loop: tirx.For) -> bool:
    return int(loop.kind) == _THREAD_BINDING


def _alone(realize: s_tir.SBlockRealize) -> s_tir.SBlockRealize:
    """Return a block whose body is the work of one thread."""
    block, thread = realize.block, tirx.Var("thread", "int64")
    body = _numbered(thread, tirx.const(1, "int64"), "threadIdx.x", _on_thread(block.body))
    new = s_tir.SBlock(block.iter_vars, block.reads, block.writes, block.name_hint, body)
    return s_tir.SBlockRealize(realize.iter_values, realize.predicate, new)


def _bound(loop: tirx.For) -> Any:
    if int(loop.kind) != PARALLEL and INDEPENDENT not in loop.annotations:
        return loop
    dtype = str(loop.loop_var.ty.dtype)
    block, thread = (tirx.Var(name, dtype) for name in ("block", "thread"))
    number = block * tirx.const(THREADS, dtype) + thread
    body = placed(_on_thread(loop.body), {loop.loop_var: loop.min + number})
    inside = tirx.IfThenElse(number < loop.extent, body, None)
    blocks = tirx.floordiv(loop.extent + tirx.const(THREADS - 1, dtype), tirx.const(THREADS, dtype))
    threads = _numbered(thread, tirx.const(THREADS, dtype), "threadIdx.x", inside)
    return _numbered(block, blocks, "blockIdx.x", threads)


def _on_thread(body: Any) -> Any:
    """Return ``body`` with variables of the thread's own, and no vectors."""
    own = [step.buffer for step in nodes(body, tirx.AllocBuffer)]
    moved = {
        var: tirx.decl_buffer(list(var.ty.shape), var.ty.dtype, var.name, scope="local")
        for var in own
    }
    return tvm_ffi.structural_map(scalar_lanes(body), (tirx.Var, lambda var: moved.get(var, var)))


def _numbered(var: Any, extent: Any, tag: str, body: Any) -> Any:
    """Return a loop over the threads or the blocks."""
    first = tirx.const(0, str(var.ty.dtype))
    numbers = tirx.IterVar(None, tirx.Var(tag, str(var.ty.dtype)), _THREAD_INDEX, tag)
    return tirx.For(var, first, extent, _THREAD_BINDING, body, numbers)
