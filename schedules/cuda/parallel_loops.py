"""Loops that are said to be parallel are numbered by threads."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tirx

from tvm_sparse.schedules.blocks import LoopRV, map_parallel_loops
from tvm_sparse.schedules.variables import placed

THREADS = 64
"""Threads of a block: such functions use few registers and no shared memory."""

_THREAD_BINDING, _THREAD_INDEX = 4, 1


@tvm.transform.module_pass(opt_level=0, name="BindParallelLoops")
class BindParallelLoops:
    """Bind parallel loops to blocks and threads.

    before: ``for i in T.parallel(n)`` --> after: ``i = blockIdx.x * 64 + threadIdx.x``

    Without threads, TVM takes a function for one of the host, where device memory is out of reach.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` without parallel loops."""
        return map_parallel_loops(mod, _bound)


def _bound(loop: LoopRV) -> Any:
    dtype = str(loop.loop_var.ty.dtype)
    block, thread = (tirx.Var(name, dtype) for name in ("block", "thread"))
    number = block * tirx.const(THREADS, dtype) + thread
    body = placed(loop.body, {loop.loop_var: loop.min + number})
    inside = tirx.IfThenElse(number < loop.extent, body, None)
    blocks = tirx.floordiv(loop.extent + tirx.const(THREADS - 1, dtype), tirx.const(THREADS, dtype))
    threads = _numbered(thread, tirx.const(THREADS, dtype), "threadIdx.x", inside)
    return _numbered(block, blocks, "blockIdx.x", threads)


def _numbered(var: Any, extent: Any, tag: str, body: Any) -> Any:
    """Return a loop over the threads or the blocks."""
    first = tirx.const(0, str(var.ty.dtype))
    numbers = tirx.IterVar(None, tirx.Var(tag, str(var.ty.dtype)), _THREAD_INDEX, tag)
    return tirx.For(var, first, extent, _THREAD_BINDING, body, numbers)
