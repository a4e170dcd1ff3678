"""Run GPU schedules without a GPU: the same schedule as OpenCL, on the CPU, by PoCL.

Thread maps, shared memory and barriers are really exercised; a schedule that a CPU would run right
by luck fails here.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import tirx
from tvm.target import Target


def _platform() -> Any:
    """Return a PoCL device, or None."""
    try:
        import pyopencl as cl

        platforms = cl.get_platforms()
    except Exception:  # without any OpenCL driver pyopencl raises a type of its own
        return None
    found = [d for p in platforms if "Portable" in p.name for d in p.get_devices()]
    return found[0] if found else None


DEVICE = _platform()
needs_pocl = pytest.mark.skipif(
    DEVICE is None, reason="PoCL is not installed (apt-get install pocl-opencl-icd, pyopencl)"
)
SHARED_BYTES = 232448


def opencl_target() -> Target:
    """Return the target that PoCL stands in for, with a GPU's limits."""
    limits = {"max_threads_per_block": 1024, "max_shared_memory_per_block": SHARED_BYTES}
    return Target({"kind": "opencl", **limits}, host=Target("llvm"))


def launches(func: tirx.PrimFunc) -> list[tuple[list[int], list[int]]]:
    """Return (grid, block) of each kernel of a scheduled function, in order; extents are static."""
    root = func.body.block.body
    nests = list(root.seq) if isinstance(root, tirx.SeqStmt) else [root]
    return [_extents(nest) for nest in nests]


def _extents(nest: Any) -> tuple[list[int], list[int]]:
    found: dict[str, int] = {}

    def look(loop: tirx.For) -> None:
        if loop.thread_binding is not None:
            found[str(loop.thread_binding.thread_tag)] = int(loop.extent)

    tvm_ffi.structural_walk(nest, [(tirx.For, look)], order="post")
    grid = [found.get(f"blockIdx.{a}", 1) for a in "xyz"]
    return grid, [found.get(f"threadIdx.{a}", 1) for a in "xyz"]


def run(
    func: tirx.PrimFunc, arrays: list[np.ndarray], output: np.ndarray, prelude: str = ""
) -> np.ndarray:
    """Return ``output`` as ``func(*arrays, output)`` leaves it."""
    import pyopencl as cl

    named = func.with_attr("global_symbol", "main")
    built = tvm.compile(tvm.IRModule({"main": named}), target=opencl_target())
    source = built.mod.imports[0].inspect_source()
    context = cl.Context([DEVICE])
    queue = cl.CommandQueue(context)
    program = cl.Program(context, prelude + source).build()
    buffers = {}
    flags = cl.mem_flags.READ_WRITE
    for param, array in zip(func.params, [*arrays, output], strict=True):
        data = np.ascontiguousarray(array)
        buffers[str(param.name)] = cl.Buffer(
            context, flags | cl.mem_flags.COPY_HOST_PTR, hostbuf=data
        )
    for buffer in func.body.block.alloc_buffers:
        if str(buffer.scope()) == "global":
            size = int(np.prod([int(e) for e in buffer.shape])) * 4
            buffers[str(buffer.name)] = cl.Buffer(context, flags, size)
    kernels = dict(re.findall(r"__kernel void (\w+)\(([^)]*)\)", source))
    for (name, params), (grid, block) in zip(kernels.items(), launches(func), strict=True):
        chosen = [_pick(buffers, p) for p in params.split(",")]
        size = [g * b for g, b in zip(grid, block, strict=True)]
        getattr(program, name)(queue, size, block, *chosen)
    result = np.ascontiguousarray(output)
    cl.enqueue_copy(queue, result, buffers[str(func.params[-1].name)])
    queue.finish()
    return result


def _pick(buffers: dict[str, Any], parameter: str) -> Any:
    """Return the buffer that a kernel's parameter (``__global float* X_ptr``) stands for."""
    name = re.search(r"(\w+)\s*$", parameter.strip()).group(1)
    return buffers[name.removesuffix("_ptr")]
