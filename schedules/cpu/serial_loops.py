"""Code for one thread has no parallel loops."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tirx

from tvm_sparse.schedules.blocks import SERIAL, LoopRV, map_parallel_loops


@tvm.transform.module_pass(opt_level=0, name="SerialLoops")
class SerialLoops:
    """Make parallel loops serial, for targets with a single thread.

    before: ``for t in T.parallel(4)`` --> after: ``for t in range(4)``

    A parallel region costs a call through the thread pool even if nobody shares the work. Its body
    is a function of its own, out of which nothing is hoisted (small convolutions: 3 to 10 %).
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` without parallel loops."""
        return map_parallel_loops(mod, _serial)


def _serial(loop: LoopRV) -> Any:
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
