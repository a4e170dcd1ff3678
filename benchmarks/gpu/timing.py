"""Time programs on a GPU: events around each call, its caches cleared before, in turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch

FLUSH_BYTES = 256 << 20
"""Written before each call: more than any L2, and long enough that the CPU runs ahead."""

SECONDS = 0.25
"""Time that a slow program's calls take together, at most..."""
FEWEST = 10
"""...but so many calls at least."""

Program = Callable[[], object]


def gpu_times(programs: Mapping[str, Program], repeats: int = 100) -> dict[str, dict[str, float]]:
    """Return ``median_us``, ``p99_us`` and ``calls`` of each program.

    Turn by turn, so that clocks and temperature meet all of them alike. Times are those between
    two events on the GPU; while the flush before them runs, the CPU launches what follows, so
    launching costs nothing. Programs of which ``repeats`` calls would take more than
    :data:`SECONDS` are called less often.
    """
    flush = torch.empty(FLUSH_BYTES // 4, dtype=torch.int32, device="cuda")

    def once(program: Program) -> tuple[torch.cuda.Event, torch.cuda.Event]:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        flush.zero_()
        start.record()
        program()
        end.record()
        return start, end

    calls = {}
    for name, program in programs.items():
        program()
        start, end = once(program)
        torch.cuda.synchronize()
        calls[name] = calls_of(start.elapsed_time(end) / 1e3, repeats)
    events: dict[str, list[tuple[torch.cuda.Event, torch.cuda.Event]]] = {n: [] for n in programs}
    for turn in range(max(calls.values())):
        for name, program in programs.items():
            if turn < calls[name]:
                events[name].append(once(program))
    torch.cuda.synchronize()
    taken = {n: [a.elapsed_time(b) * 1e3 for a, b in pairs] for n, pairs in events.items()}
    return {
        name: {
            "median_us": float(np.median(times)),
            "p99_us": float(np.percentile(times, 99)),
            "calls": len(times),
        }
        for name, times in taken.items()
    }


def calls_of(seconds: float, repeats: int) -> int:
    """Return how often a program that takes ``seconds`` is called, ``repeats`` times at most."""
    return min(repeats, max(FEWEST, int(SECONDS / max(seconds, 1e-9))))


def missing_gpu() -> str:
    """Return why nothing can be measured here; empty where it can."""
    if not torch.cuda.is_available():
        return f"torch {torch.__version__} finds no NVIDIA GPU on this machine"
    return ""


def gpu_works() -> bool:
    """Whether CUDA still takes calls: a wild access of a kernel ends them for the whole process."""
    try:
        torch.cuda.synchronize()
    except (RuntimeError, AssertionError):
        return False
    return True
