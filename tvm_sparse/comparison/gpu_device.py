"""A GPU as comparisons see it: its memory, its only stream, and the capture of programs."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from typing import Any, Protocol

import torch
import tvm

FLUSHES = ("clean", "dirty", "none")
"""What a program finds in L2: lines of a foreign array that were only read, lines that were
written and that its own loads must first write back, or what the call before it left."""

FLUSH_BYTES = 256 << 20
"""More than any L2 cache."""

STATE = ("driver_version", "clocks.sm", "clocks.mem", "clocks.max.sm", "temperature.gpu")
"""What ``nvidia-smi`` is asked for."""

Program = Callable[[], Any]


class Device(Protocol):
    """A GPU's memory, its only stream, events on it, and the host's clock."""

    ptx: bool
    """Whether it runs PTX instead of machine code."""

    def about(self) -> dict[str, Any]:
        """Return what identifies it: ``gpu``, a name, and more."""

    def works(self) -> bool:
        """Whether it takes calls: a wild access of a kernel ends them for the whole process."""

    def put(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a copy on the GPU, which :meth:`share` knows."""

    def share(self, tensor: torch.Tensor) -> Any:
        """Return TVM's tensor in the memory of one that :meth:`put` gave."""

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

    ptx = False

    def __init__(self) -> None:
        def array() -> torch.Tensor:
            return torch.ones(FLUSH_BYTES // 4, dtype=torch.int32, device="cuda")

        self._written, self._read = array(), array()
        self._cycles = 1.0
        self._cycles = self._cycles_a_second()

    def about(self) -> dict[str, Any]:
        """Return name, SMs, L2 and memory in bytes, and what ``nvidia-smi`` says of clocks."""
        chip = torch.cuda.get_device_properties(0)
        found = {
            "gpu": torch.cuda.get_device_name(0),
            "cuda": torch.version.cuda,
            "sms": chip.multi_processor_count,
            "l2_bytes": chip.L2_cache_size,
            "memory_bytes": chip.total_memory,
        }
        if shutil.which("nvidia-smi"):
            command = ["nvidia-smi", f"--query-gpu={','.join(STATE)}", "--format=csv,noheader"]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
            found |= zip(STATE, done.stdout.strip().split(", "), strict=False)
        return found

    def works(self) -> bool:
        """Whether the GPU can be waited for."""
        try:
            torch.cuda.synchronize()
        except (RuntimeError, AssertionError):
            return False
        return True

    def put(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a copy on the GPU."""
        return tensor.cuda()

    def share(self, tensor: torch.Tensor) -> Any:
        """Return TVM's view of a tensor on the GPU."""
        return tvm.runtime.from_dlpack(tensor)

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
        tensors = poisoned(out)
        graph.replay()
        self.wait()
        require_written(tensors)
        return graph.replay

    def _cycles_a_second(self, cycles: int = 20_000_000) -> float:
        """Return the rate of the clock that :meth:`sleep` counts; the second measurement counts."""
        for _ in range(2):
            begin = self.event()
            torch.cuda._sleep(cycles)
            end = self.event()
            self.wait()
        return cycles / self.between(begin, end)


def poisoned(value: Any) -> list[torch.Tensor]:
    """Fill a program's floating-point outputs with NaN, and return them.

    Raises
    ------
    RuntimeError
        It has none.
    """
    tensors = [one for one in _flat(value) if one.is_floating_point()]
    if not tensors:
        raise RuntimeError("no output that a replay could be seen to write")
    for one in tensors:
        one.fill_(float("nan"))
    return tensors


def require_written(tensors: list[torch.Tensor]) -> None:
    """Raise ``RuntimeError`` if a tensor holds a NaN: the replay holds none of the work."""
    if any(bool(one.isnan().any()) for one in tensors):
        raise RuntimeError("the replay does not write its output")


def _flat(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [one for part in value for one in _flat(part)] if isinstance(value, list | tuple) else []
