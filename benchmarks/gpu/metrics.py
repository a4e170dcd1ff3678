"""What NVIDIA's profiler counts in the main kernels, where ``ncu`` is installed."""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.gpu.cases import Case, depthwise, grid
from benchmarks.gpu.prepare import Kernel, kernels

METRICS = (
    "gpu__time_duration.sum",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__inst_executed_pipe_tensor.sum",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "l1tex__data_bank_conflicts_pipe_lsu.sum",
    "launch__registers_per_thread",
)


def main_kernels() -> list[Kernel]:
    """Return the stream, the decoded tile and the depthwise taps that are looked at."""

    def first(cases: Sequence[Case], rows: int, pattern: str) -> Case:
        return next(c for c in cases if c.contraction.lead[0] == rows and c.pattern == pattern)

    cases, mobile = list(grid()), list(depthwise())
    sparse = [c for c in cases if c.sparsity == 0.75]
    chosen = [
        first(sparse, 1, "balanced"),
        first(sparse, 32, "balanced"),
        first(mobile, 32, "taps"),
    ]
    return [k for k in kernels(chosen) if k.storage == k.case.storage]


def rows(target: str) -> Iterator[dict[str, Any]]:
    """Yield the metrics of each main kernel; raise ``FileNotFoundError`` without ``ncu``."""
    program = shutil.which("ncu")
    if program is None:
        raise FileNotFoundError("ncu (NVIDIA Nsight Compute) is not installed")
    for position, kernel in enumerate(main_kernels()):
        code = f"from benchmarks.gpu.metrics import run; run({position}, {target!r})"
        command = [program, "--csv", "--metrics", ",".join(METRICS), sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        if done.returncode:
            raise RuntimeError(f"ncu: {(done.stderr or done.stdout).strip()[-300:]}")
        yield {"case": kernel.name, "metrics": parse(done.stdout)}


def run(position: int, target: str) -> None:
    """Run one main kernel once: what the profiler starts."""
    import torch

    from benchmarks.gpu.layers import ours
    from benchmarks.gpu.prepare import load

    kernel = main_kernels()[position]
    func, arrays, _ = load(kernel, target)
    c = kernel.case.contraction
    x = torch.ones(c.input_shape, dtype=getattr(torch, c.dtype), device="cuda")
    program, _ = ours(func, arrays, x, c.output_shape)
    program()
    torch.cuda.synchronize()


def parse(text: str) -> dict[str, dict[str, float]]:
    """Return kernel -> metric -> value of the profiler's CSV, kernels of ours only."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith('"ID"'))
    found: dict[str, dict[str, float]] = {}
    for row in csv.DictReader(io.StringIO("\n".join(lines[start:]))):
        if row["Kernel Name"].startswith("main"):
            values = found.setdefault(row["Kernel Name"], {})
            values[row["Metric Name"]] = float(row["Metric Value"].replace(",", ""))
    return found
