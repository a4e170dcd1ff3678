"""The GPU as the benchmark sees it: what to do before a program, when it ran, and its capture.

:class:`Cuda` is PyTorch's view of an NVIDIA GPU; ``stand_in.py`` holds one for machines without.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, Protocol

import torch

FLUSHES = ("clean", "dirty", "none")
"""What a program finds in L2: lines of a foreign array that were only read, lines that were
written and that its own loads must first write back, or what the call before it left."""

FLUSH_BYTES = 256 << 20
"""More than any L2 cache."""

Program = Callable[[], Any]


class Device(Protocol):
    """A GPU's only stream, events on it, and the host's clock."""

    def flush(self, kind: str) -> None:
        """Let the stream empty L2, as :data:`FLUSHES` says."""

    def sleep(self, seconds: float) -> None:
        """Let the stream do nothing for so long at least."""

    def event(self) -> Any:
        """Return an event at the present end of the stream."""

    def between(self, begin: Any, end: Any) -> float:
        """Return the seconds between two events that are over."""

    def now(self) -> float:
        """Return the host's clock in seconds."""

    def wait(self) -> None:
        """Wait until the stream is empty."""

    def captured(self, program: Program) -> Program:
        """Return a program that replays what ``program`` launches, without its host code.

        Raises
        ------
        RuntimeError
            It cannot be captured, or its replay does not write its output.
        """


class Cuda:
    """The first NVIDIA GPU, through PyTorch."""

    def __init__(self) -> None:
        def array() -> torch.Tensor:
            return torch.ones(FLUSH_BYTES // 4, dtype=torch.int32, device="cuda")

        self._written, self._read = array(), array()
        self._cycles = 1.0
        self._cycles = self._cycles_a_second()

    def flush(self, kind: str) -> None:
        """Write 256 MB, and read another 256 MB if lines shall be clean."""
        if kind != "none":
            self._written.zero_()
        if kind == "clean":
            torch.max(self._read)

    def sleep(self, seconds: float) -> None:
        """Let one thread count clocks."""
        torch.cuda._sleep(int(seconds * self._cycles))

    def event(self) -> torch.cuda.Event:
        """Return a recorded event."""
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, begin: torch.cuda.Event, end: torch.cuda.Event) -> float:
        """Return the seconds between two events that are over."""
        return float(begin.elapsed_time(end)) * 1e-3

    def now(self) -> float:
        """Return the host's clock in seconds."""
        return time.perf_counter()

    def wait(self) -> None:
        """Wait until the GPU is idle."""
        torch.cuda.synchronize()

    def captured(self, program: Program) -> Program:
        """Return the replay of a CUDA graph that writes its output, as was seen."""
        import tvm_ffi

        # Libraries choose algorithms and allocate in their first calls, which no graph may hold.
        program()
        self.wait()
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        ours = tvm_ffi.use_raw_stream(tvm_ffi.device("cuda", 0), stream.cuda_stream)
        # Both contexts end whatever happens: later calls must not go to this stream.
        with torch.cuda.stream(stream), ours:
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                out = program()
            finally:
                graph.capture_end()
        tensors = [one for one in _flat(out) if one.is_floating_point()]
        if not tensors:
            raise RuntimeError("no output that a replay could be seen to write")
        for one in tensors:
            one.fill_(float("nan"))
        graph.replay()
        self.wait()
        if any(bool(one.isnan().any()) for one in tensors):
            raise RuntimeError("the replay does not write its output")
        return graph.replay

    def _cycles_a_second(self, cycles: int = 20_000_000) -> float:
        """Return the rate of the clock that :meth:`sleep` counts; the second measurement counts."""
        for _ in range(2):
            begin = self.event()
            torch.cuda._sleep(cycles)
            end = self.event()
            self.wait()
        return cycles / self.between(begin, end)


@functools.cache
def current() -> Device:
    """Return the device of this process."""
    return Cuda()


def _flat(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [one for part in value for one in _flat(part)] if isinstance(value, list | tuple) else []
