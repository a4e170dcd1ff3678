"""Step 3: what NVIDIA's profiler counts in the kernels that decide, where it is installed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial

from benchmarks.gpu import metrics, prepare
from benchmarks.gpu.prepare import Kernel
from benchmarks.gpu.queue.step import Piece, Plan, Row

MISSING = "ncu (NVIDIA Nsight Compute) is not installed"
LIMIT = 120.0


def kernels(plan: Plan) -> list[Kernel]:
    """Return what is looked at; nothing of a small plan, whose kernels run on no GPU."""
    return [] if plan.small else metrics.main_kernels()


def pieces(plan: Plan) -> Iterator[Piece]:
    """Yield a piece for each kernel."""
    skip = "" if shutil.which("ncu") else MISSING
    key = plan.key(*prepare.KERNEL_CODE)
    for kernel in metrics.main_kernels():
        run = partial(metrics.rows_of, kernel, plan.target)
        needs = () if skip else (kernel,)
        yield Piece(kernel.name, "metrics", key, run, needs, skip, seconds=40.0, limit=LIMIT)


def tells(rows: list[Row]) -> str:
    """Say which kernels keep few warps active."""
    name = "sm__warps_active.avg.pct_of_peak_sustained_active"
    active = [values.get(name) for row in rows for values in row["metrics"].values()]
    return f"warps active {min(filter(None, active)):.0f} % at least" if any(active) else ""
