"""The kernels' PTX in the executor, under its sanitizer: clusters of one thread block."""

from __future__ import annotations

import ctypes

import torch

from benchmarks.gpu.hopper import source
from benchmarks.gpu.hopper.arguments import POINTERS, Call
from benchmarks.gpu.hopper.design import Design, Shape
from tvm_sparse.schedules.cuda.nvrtc import compile_source
from tvm_sparse_emulator.executor import Memory, execute
from tvm_sparse_emulator.report import EmulationReport

VIRTUAL = "compute_90a"
SWIZZLE_128B = 3
BOX_COLUMNS = 64


def ptx(design: Design, shape: Shape) -> str:
    """Return the PTX of a kernel."""
    return compile_source(source.cuda(design, shape), VIRTUAL).rstrip(b"\0").decode()


def run(
    text: str, design: Design, shape: Shape, call: Call, x: torch.Tensor
) -> tuple[torch.Tensor, EmulationReport]:
    """Return ``[rows, M]`` of a call with activations ``x``, and what the executor found."""
    arguments, y = type(call.arguments).from_buffer_copy(call.arguments), call.y.numpy()
    with Memory() as memory:
        for name, tensor in zip(POINTERS, call.tensors, strict=True):
            if tensor is not None:
                array = y if tensor is call.y else tensor.numpy()
                setattr(arguments, name, memory.place(array))
        boxes = memory.tensor_map(x.numpy(), (shape.rows, BOX_COLUMNS), SWIZZLE_128B)
        taken = [ctypes.string_at(ctypes.addressof(arguments), ctypes.sizeof(arguments)), boxes]
        grid, block = (call.units * shape.parts, 1, 1), (shape.threads, 1, 1)
        size = design.shared_bytes(shape)
        report = execute(text, source.NAME, grid, block, taken, shared=size, memory=memory)
    return torch.from_numpy(y), report
