"""Code for one thread has no parallel loops."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from tvm_sparse.schedules.blocks import PARALLEL, SERIAL, LoopRV


@tvm.transform.module_pass(opt_level=0, name="SerialLoops")
class SerialLoops:
    """Make parallel loops serial, for targets with a single thread.

    before: ``for t in T.parallel(4)`` --> after: ``for t in range(4)``

    A parallel region costs a call through the thread pool even if nobody shares the work, and its
    body is a function of its own, out of which nothing is hoisted (small convolutions: 3 to 10 %).
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` without parallel loops."""
        result = tvm.IRModule(mod.functions, attrs=mod.attrs)
        for name, func in mod.functions_items():
            if isinstance(func, tirx.PrimFunc):
                body = tvm_ffi.structural_map(func.body, (tirx.For, _serial))
                result[name] = tirx.PrimFunc(func.params, body, func.ret_type, attrs=func.attrs)
        return result


def _serial(loop: LoopRV) -> Any:
    if int(loop.kind) != PARALLEL:
        return loop
    return tirx.For(
        loop.loop_var,
        loop.min,
        loop.extent,
        SERIAL,
        loop.body,
        loop.thread_binding,
        loop.annotations,
        loop.step,
    )
