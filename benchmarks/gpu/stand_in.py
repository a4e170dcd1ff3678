"""A GPU for machines without one: the driver that executes PTX on this CPU, peers beside it.

Memory of the GPU is the host's, so PyTorch computes in it, too. Kernels, copies and captured graphs
go through CUDA's interface as on a GPU. Everything is over when a call returns: a program takes
what this CPU takes, and its host takes nothing. No time of it says anything about a GPU.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from typing import Any

import torch
import tvm
import tvm_ffi

from benchmarks.gpu import device
from benchmarks.gpu.device import Program

RUNTIME = "libcudart.so.13"
RELAXED = 2
NAME = "stand-in"


def enter(arguments: list[str]) -> None:
    """Start this program again under the stand-in, unless it is there: with its CUDA libraries."""
    if device.STAND_IN in os.environ:
        return
    from tvm_sparse_emulator import stand_in

    # With a log, machine code loads too, and computes nothing: enough for a session of tuning.
    found = {**stand_in.environment(log=os.devnull), device.STAND_IN: "1"}
    os.execve(sys.executable, [sys.executable, *arguments], {**os.environ, **found})


class StandIn:
    """A ``device.Device`` on this CPU."""

    ptx = True

    def __init__(self) -> None:
        if not tvm.cuda(0).exist:
            raise RuntimeError(
                "the stand-in is not where CUDA is looked for: begin with --stand-in"
            )
        self._runtime = ctypes.CDLL(RUNTIME)
        self._slept = 0.0
        self._put: dict[int, Any] = {}

    def about(self) -> dict[str, Any]:
        """Return a name that no GPU has."""
        return {"gpu": NAME}

    def works(self) -> bool:
        """Whether it takes calls, which it always does."""
        return True

    def put(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a copy in memory that kernels may touch; bfloat16, which NumPy lacks, stays."""
        if tensor.dtype == torch.bfloat16:
            return tensor
        held = tvm.runtime.tensor(tensor.detach().contiguous().numpy(), tvm.cuda(0))
        nbytes = tensor.numel() * tensor.element_size()
        memory = (ctypes.c_char * nbytes).from_address(held.data_ptr())
        view = torch.frombuffer(memory, dtype=tensor.dtype).reshape(tensor.shape)
        self._put[view.data_ptr()] = held
        return view

    def share(self, tensor: torch.Tensor) -> Any:
        """Return TVM's tensor in the memory of one that :meth:`put` gave."""
        return self._put[tensor.data_ptr()]

    def flush(self, kind: str) -> None:
        """Do nothing: there is no L2."""

    def sleep(self, seconds: float) -> None:
        """Let ``seconds`` pass on the stream alone."""
        self._slept += seconds

    def event(self) -> float:
        """Return the stream's time."""
        return time.perf_counter() + self._slept

    def between(self, begin: float, end: float) -> float:
        """Return the seconds between two events."""
        return end - begin

    def now(self) -> float:
        """Return the host's clock, which stands still."""
        return 0.0

    def wait(self) -> None:
        """Do nothing: everything is over."""

    def captured(self, program: Program) -> Program:
        """Return the replay of a graph that the driver recorded, and that writes its output.

        What PyTorch computes on this CPU is in no graph: that is refused, as by a GPU.
        """
        graph, runnable, stream = (ctypes.c_void_p() for _ in range(3))
        self._call("cudaStreamCreate", ctypes.byref(stream))
        ours = tvm_ffi.use_raw_stream(tvm_ffi.device("cuda", 0), stream.value or 0)
        self._call("cudaStreamBeginCapture", stream, RELAXED)
        try:
            with ours:
                out = program()
        finally:
            self._call("cudaStreamEndCapture", stream, ctypes.byref(graph))
            self._call("cudaStreamDestroy", stream)
        self._call("cudaGraphInstantiate", ctypes.byref(runnable), graph, ctypes.c_ulonglong(0))

        def replay() -> None:
            self._call("cudaGraphLaunch", runnable, None)

        tensors = device.poisoned(out)
        replay()
        device.require_written(tensors)
        return replay

    def _call(self, name: str, *arguments: Any) -> None:
        if status := getattr(self._runtime, name)(*arguments):
            raise RuntimeError(f"{name} failed ({status})")
