"""Rows of times on the device of this process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.gpu import device
from benchmarks.gpu.device import Program
from tvm_sparse.comparison.gpu_times import (
    FEWEST,
    LONGEST,
    SECONDS,
    OwnGraphs,
    calls_of,
    gpu_times,
)

__all__ = ["FEWEST", "LONGEST", "SECONDS", "OwnGraphs", "Timer", "calls_of", "gpu_times"]


@dataclass(frozen=True)
class Timer:
    """How programs are timed: calls of each, and what they find in L2 (``device.FLUSHES``)."""

    repeats: int = 100
    flush: str = "clean"

    def row(self, programs: Mapping[str, Program]) -> dict[str, Any]:
        """Return ``times`` of the programs, and what they found in L2, for a row of results."""
        times = gpu_times(programs, self.repeats, self.flush, device.current())
        slow = {n: t["contaminated"] for n, t in times.items() if "contaminated" in t}
        return {"flush": self.flush, **({"contaminated": slow} if slow else {}), "times": times}
