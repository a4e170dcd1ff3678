"""What NVIDIA's profiler counts in the main kernels, where ``ncu`` is installed."""

from __future__ import annotations

import contextlib
import csv
import io
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.gpu.cases import TAPS, Case, depthwise, grid
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

CAUSES = (
    *(
        f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"
        for reason in ("long_scoreboard", "short_scoreboard", "barrier", "mio_throttle", "wait")
    ),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "lts__t_sectors.sum",
)
"""What warps wait for, passes over shared memory, sectors of L2. Names change with the profiler."""

UNCHANGED = ("--cache-control", "none", "--clock-control", "none")
"""Caches and clocks stay as in the benchmark."""
OURS = ("--kernel-name", "regex:^main")


def main_kernels() -> list[Kernel]:
    """Return streams, decoded tiles, blocks, 2:4, dense tiles and the depthwise taps."""

    def first(cases: Sequence[Case], rows: int, pattern: str, sparsity: float) -> Case:
        return next(
            c
            for c in cases
            if (c.contraction.lead[0], c.pattern, c.sparsity) == (rows, pattern, sparsity)
        )

    cases, mobile = list(grid()), list(depthwise())
    chosen = [
        first(cases, 1, "balanced", 0.75),
        first(cases, 8, "balanced", 0.75),
        first(cases, 32, "balanced", 0.75),
        first(cases, 1, "block 64x64", 0.9),
        first(cases, 64, "block 64x64", 0.9),
        first(cases, 64, "none", 0.0),
        first(cases, 64, "2:4", 0.5),
        first(mobile, 32, "taps", TAPS),
    ]
    return [k for k in kernels(chosen) if k.format == k.case.format]


def rows(target: str) -> Iterator[dict[str, Any]]:
    """Yield the metrics of each main kernel; raise ``FileNotFoundError`` without ``ncu``."""
    for kernel in main_kernels():
        yield from rows_of(kernel, target)


def rows_of(kernel: Kernel, target: str) -> Iterator[dict[str, Any]]:
    """Yield the metrics of a main kernel, without :data:`CAUSES` where they have other names."""
    program = shutil.which("ncu")
    if program is None:
        raise FileNotFoundError("ncu (NVIDIA Nsight Compute) is not installed")
    code = f"from benchmarks.gpu.metrics import run; run({kernel.name!r}, {target!r})"
    for names in ((*METRICS, *CAUSES), METRICS):
        asked = [program, "--csv", *UNCHANGED, *OURS, "--metrics", ",".join(names)]
        command = [*asked, sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
        found = parse(done.stdout) if done.returncode == 0 else {}
        if found:
            yield {"case": kernel.name, "metrics": found}
            return
    raise RuntimeError(f"ncu: {(done.stderr or done.stdout).strip()[-300:]}")


def run(name: str, target: str) -> None:
    """Run one main kernel once: what the profiler starts."""
    import torch

    from benchmarks.gpu import device
    from benchmarks.gpu.layers import ours
    from benchmarks.gpu.prepare import load

    kernel = next(kernel for kernel in main_kernels() if kernel.name == name)
    on = device.current()
    func, arrays, record = load(kernel, target, ptx=on.ptx)
    c = kernel.case.contraction
    x = on.put(torch.ones(c.input_shape, dtype=getattr(torch, c.dtype)))
    program, _ = ours(func, arrays, x, c.output_shape, record["workspaces"])
    program()
    on.wait()


def parse(text: str) -> dict[str, dict[str, float]]:
    """Return kernel -> metric -> value of the profiler's CSV, kernels of ours only."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    found: dict[str, dict[str, float]] = {}
    for row in csv.DictReader(io.StringIO("\n".join(lines[start:]))):
        if row["Kernel Name"].startswith("main"):
            values = found.setdefault(row["Kernel Name"], {})
            with contextlib.suppress(ValueError):  # "n/a": this GPU does not count it
                values[row["Metric Name"]] = float(row["Metric Value"].replace(",", ""))
    return found
