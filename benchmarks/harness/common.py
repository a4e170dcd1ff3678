"""What benchmark scripts share: the environment of a run, results on disk, fair timing."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import time
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from benchmarks.harness import rows

Program = TypeVar("Program", bound=Hashable)
THREADS = (1, 2)
PAUSE = 0.25
"""Seconds after which the threads of every library sleep: OpenVINO's and TVM's spin for 0.2."""

RESULTS = Path(__file__).resolve().parents[1] / "results"

PACKAGES = ("tvm-sparse", "apache-tvm", "torch", "onnxruntime", "openvino", "numpy", "scipy")


def environment(threads: int) -> dict[str, Any]:
    """Return what a reader needs to believe a figure: CPU, threads, versions, date."""
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "threads": threads,
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"),
        "versions": {p: v for p in PACKAGES if (v := _version(p))},
    }


def save(name: str, content: Mapping[str, Any]) -> Path:
    """Write ``content`` as ``results/<name>.json``."""
    path = RESULTS / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(rows.dumps(content), encoding="utf-8")
    return path


def load(name: str) -> dict[str, Any]:
    """Return what ``results/<name>.json`` holds, nothing if there is none."""
    path = RESULTS / f"{name}.json"
    return rows.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def interleaved(
    programs: Mapping[Program, Callable[[], object]],
    rounds: int = 15,
    seconds: float = 0.02,
    pause: float = 0.0,
    clock: Callable[[], int] = time.perf_counter_ns,
) -> dict[Program, dict[str, float]]:
    """Time the programs in turns; return ``median_us``, ``p99_us`` and ``calls`` of each.

    Every turn runs each program for about ``seconds``, at least once, so that noise of the machine
    meets all of them. One untimed call before brings a program's data into the cache. Threads
    of some libraries go on spinning when their program is over: ``pause`` seconds between turns
    (:data:`PAUSE` where programs use several threads) let them stop. ``clock`` counts nanoseconds.
    """
    calls = {}
    for name, program in programs.items():
        program()
        start = clock()
        program()
        calls[name] = max(1, int(seconds * 1e9 / max(clock() - start, 100)))
    samples: dict[Program, list[float]] = {name: [] for name in programs}
    for _ in range(rounds):
        for name, program in programs.items():
            time.sleep(pause)
            program()
            for _ in range(calls[name]):
                start = clock()
                program()
                samples[name].append((clock() - start) / 1e3)
    return {
        name: {
            "median_us": float(np.median(taken)),
            "p99_us": float(np.percentile(taken, 99)),
            "calls": len(taken),
        }
        for name, taken in samples.items()
    }


def by_threads(
    programs: Mapping[Program, Callable[[], object]], rounds: int, seconds: float
) -> dict[tuple[Program, int], float]:
    """Time programs of ours with one thread and with two, in turns; return medians in us."""
    from tvm_sparse_runtime import engine

    use = engine.function("tvm_sparse.use_threads")
    times: dict[tuple[Program, int], list[float]] = {(p, n): [] for p in programs for n in THREADS}
    for _ in range(rounds):
        for threads in THREADS:
            use(threads)
            for program, time_ in interleaved(programs, 1, seconds).items():
                times[program, threads].append(time_["median_us"])
    return {key: float(np.median(taken)) for key, taken in times.items()}


def relative_error(got: Any, expected: Any) -> float:
    """Return the largest difference relative to the largest expected value."""
    got, expected = np.asarray(got, np.float64), np.asarray(expected, np.float64)
    return float(np.abs(got - expected).max() / max(np.abs(expected).max(), 1e-30))


def _cpu() -> str:
    """Name the CPU, its architecture as LLVM does (models are often hidden), its widest vectors."""
    from tvm.target import codegen

    text = Path("/proc/cpuinfo").read_text()
    model = next((x.split(":")[1].strip() for x in text.splitlines() if "model name" in x), "?")
    wide = "AVX-512" if " avx512f" in text else "AVX2" if " avx2" in text else "SSE"
    return f"{model} ({codegen.llvm_get_system_cpu()}, {wide})"


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
