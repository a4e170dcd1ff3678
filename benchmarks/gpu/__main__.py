"""Run the GPU benchmark: ``python -m benchmarks.gpu [--parts grid] [--build] [--minutes 10]``.

Every row is saved as soon as it is there; a second call continues where the first one ended.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

from benchmarks.common import RESULTS, save
from benchmarks.gpu import cases
from benchmarks.gpu.cases import Case
from benchmarks.gpu.prepare import Buildable, build_all, kernels
from benchmarks.gpu.timing import missing_gpu

LAYERS: dict[str, Callable[[], Iterable[Case]]] = {
    "correct": cases.small,
    "papers": cases.papers,
    "depthwise": cases.depthwise,
    "grid": cases.grid,
}
PARTS = ("correct", "limits", "models", "papers", "depthwise", "grid", "metrics", "tune")
"""In the order in which they run: limits first, what takes longest last."""


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    options.deadline = time.monotonic() + options.minutes * 60
    failed = _build(options.parts, options.target, options.workers)
    if options.build:
        return 1 if failed else 0
    reason = missing_gpu()
    if reason:
        _tell(f"built, but not measured: {reason}")
        return 2
    for part in options.parts:
        results = Results(part)
        try:
            for row in _rows(part, results.done, options):
                results.add(row)
                if time.monotonic() > options.deadline:
                    break
        except (FileNotFoundError, ArithmeticError, RuntimeError) as error:
            _tell(f"{part}: {error}")
            failed += 1
        # Tuning ends without a row, in the middle of a case.
        if time.monotonic() > options.deadline:
            _tell(f"{part}: {options.minutes:g} minutes are over; run it again to go on")
            return 3
    return 1 if failed else 0


class Results:
    """The rows of one part, on disk."""

    def __init__(self, part: str) -> None:
        self.name = f"gpu_{part}"
        path = RESULTS / f"{self.name}.json"
        self.rows: list[dict[str, Any]] = (
            json.loads(path.read_text())["rows"] if path.exists() else []
        )

    @property
    def done(self) -> set[str]:
        """Names of the cases that are measured."""
        return {row["case"] for row in self.rows}

    def add(self, row: dict[str, Any]) -> None:
        """Save one row with what a reader needs to believe it."""
        self.rows.append({**row, "environment": environment()})
        save(self.name, {"rows": self.rows})
        _tell(f"{self.name}: {row['case']}")


def environment() -> dict[str, Any]:
    """Return GPU, driver's CUDA, versions, date and how it was timed."""
    import torch

    names = ("tvm-sparse", "apache-tvm", "torch", "triton")
    versions = {}
    for name in names:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "gpu": torch.cuda.get_device_name(0),
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"),
        "timing": "CUDA events, L2 flushed before each call, programs in turns",
        "versions": versions,
    }


def _rows(part: str, done: set[str], options: argparse.Namespace) -> Iterable[dict[str, Any]]:
    """Yield the rows of ``part`` that are not ``done``."""
    from benchmarks.gpu import layers, limits, metrics, models, pairs, tune

    if part == "tune":
        end, workers = options.deadline, options.workers
        yield from tune.rows(done, options.target, deadline=end, workers=workers)
    elif part == "limits":
        yield from (row for row in limits.rows(options.repeats) if row["case"] not in done)
    elif part == "models":
        yield from models.rows(done, options.repeats)
    elif part == "metrics":
        yield from (row for row in metrics.rows(options.target) if row["case"] not in done)
    else:
        for case in LAYERS[part]():
            if case.name not in done:
                yield layers.measure(case, kernels([case]), options.target, options.repeats)
        if part == "depthwise":
            yield from pairs.rows(done, options.target, options.repeats)


def _build(parts: Iterable[str], target: str, workers: int) -> int:
    """Build what ``parts`` need; return how many kernels and networks cannot be built."""
    from benchmarks.gpu import metrics, models, pairs

    wanted: dict[str, Buildable] = {}
    for part in (p for p in parts if p in LAYERS):
        wanted |= {k.name: k for k in kernels(LAYERS[part]())}
    if "depthwise" in parts:
        wanted |= {k.name: k for k in pairs.kernels()}
    if "metrics" in parts:
        wanted |= {k.name: k for k in metrics.main_kernels()}
    failed = 0
    for position, (kernel, error) in enumerate(build_all(wanted.values(), target, workers), 1):
        failed += bool(error)
        _tell(f"[{position}/{len(wanted)}] {kernel.name}" + (f": {error}" if error else ""))
    for name in models.NETWORKS if "models" in parts else ():
        try:
            models.build_artifacts(name, target)
            _tell(f"network {name}")
        # A network needs packages that may be missing; the others are built all the same.
        except (Exception, SystemExit) as error:
            failed += 1
            _tell(f"network {name}: {type(error).__name__}: {error}")
    return failed


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.gpu", description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--target", default="cuda:sm_90", help="architecture to compile for")
    parser.add_argument("--build", action="store_true", help="only compile; needs no GPU")
    parser.add_argument("--minutes", type=float, default=9.5, help="stop after as many")
    parser.add_argument("--repeats", type=int, default=100, help="timed calls of each program")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    return parser.parse_args(arguments)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
