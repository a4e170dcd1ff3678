"""Time kernels on an NVIDIA GPU whose caches are cold: between two events, after a flush."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from statistics import median
from typing import Any

import tvm

FLUSH_BYTES = 256 << 20
"""Written before each call: more than any L2 cache, and long enough that the host, which launches
the kernel meanwhile, is not what is timed."""

CALLS = 9
"""Calls that a repetition is the median of."""

LIBRARY = "libcudart.so.13"
"""What TVM's CUDA runtime has loaded before, from wherever it found it."""


def cold_times(call: Callable[[], Any], repeat: int) -> list[float]:
    """Return ``repeat`` medians of the seconds that ``call``'s kernels take.

    Weights of one layer fit the L2 cache, those of a network do not: each call begins without any.

    Raises
    ------
    RuntimeError
        A call of the CUDA runtime failed.
    """
    runtime = _Runtime()
    flush = tvm.runtime.empty((FLUSH_BYTES,), "uint8", tvm.cuda(0))
    place = ctypes.c_void_p(flush.data_ptr())
    begin, end = runtime.event(), runtime.event()
    call()
    results = []
    for _ in range(repeat):
        times = []
        for _ in range(CALLS):
            runtime("cudaMemsetAsync", place, 0, ctypes.c_size_t(FLUSH_BYTES), None)
            runtime("cudaEventRecord", begin, None)
            call()
            runtime("cudaEventRecord", end, None)
            runtime("cudaEventSynchronize", end)
            taken = ctypes.c_float()
            runtime("cudaEventElapsedTime", ctypes.byref(taken), begin, end)
            times.append(taken.value * 1e-3)
        results.append(median(times))
    for event in (begin, end):
        runtime("cudaEventDestroy", event)
    return results


class _Runtime:
    """The CUDA runtime library; a call that fails raises."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(LIBRARY)

    def __call__(self, name: str, *arguments: Any) -> None:
        status = getattr(self.library, name)(*arguments)
        if status:
            raise RuntimeError(f"{name} failed ({status})")

    def event(self) -> ctypes.c_void_p:
        """Return a new event."""
        event = ctypes.c_void_p()
        self("cudaEventCreate", ctypes.byref(event))
        return event
