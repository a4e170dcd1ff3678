"""``tvm-sparse run``: call an artifact on arrays, without torch and without the compiler."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from tvm_sparse.base.array_files import read_array
from tvm_sparse.cli import console, tables
from tvm_sparse.cli.options import Debug, Json, random_array
from tvm_sparse.errors import InputError
from tvm_sparse_runtime.array_files import write_array

WARM_UP = 3


def run_command(
    artifact: Annotated[Path, typer.Argument(metavar="DIR", help="An artifact directory.")],
    *,
    input: Annotated[
        list[Path] | None,
        typer.Option(
            "--input", metavar="FILE", help="A .npy file; once for each input. Random if unset."
        ),
    ] = None,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="A .npy file to write; once for each output."
        ),
    ] = None,
    repeat: Annotated[
        int, typer.Option(min=0, help="Calls to time after the first; 0 times nothing.")
    ] = 0,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads to run with; the artifact's choice if unset.")
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Load an artifact, call it, write its outputs, and time it if asked."""
    with console.errors(debug):
        import tvm_sparse_runtime as runtime

        library = runtime.load(artifact, threads=threads)
        arrays = _inputs(library, input)
        outputs = list(library.run(*arrays))
        _save(outputs, output or [])
        latency = timed(lambda: library.run(*arrays), repeat) if repeat else None
        _show([spec.name for spec in library.outputs], outputs, latency, json)


def _inputs(library: Any, files: list[Path] | None) -> list[np.ndarray]:
    if files:
        return [read_array(f) for f in files]
    dynamic = [spec for spec in library.inputs if any(isinstance(e, str) for e in spec.shape)]
    if dynamic:
        raise InputError(
            f"input '{dynamic[0].name}'", f"has an open shape, {dynamic[0]}", "--input x.npy"
        )
    return [random_array(spec.shape, spec.dtype) for spec in library.inputs]


def _save(outputs: list[np.ndarray], files: list[Path]) -> None:
    if files and len(files) != len(outputs):
        raise InputError("--output", f"given {len(files)} times", f"{len(outputs)}, one an output")
    for array, file in zip(outputs, files, strict=False):
        write_array(file, array)


def timed(call: Callable[[], object], repeat: int) -> dict[str, float]:
    """Return statistics, in microseconds, of ``repeat`` calls after some warm-up."""
    for _ in range(WARM_UP):
        call()
    samples = []
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        samples.append(1e6 * (time.perf_counter() - start))
    return {
        "repeat": repeat,
        "min_us": min(samples),
        "median_us": statistics.median(samples),
        "mean_us": statistics.fmean(samples),
        "p99_us": float(np.percentile(samples, 99)),
    }


def _show(
    names: list[str], outputs: list[np.ndarray], latency: dict[str, float] | None, json: bool
) -> None:
    if json:
        records = [
            {"name": name, "shape": list(a.shape), "dtype": str(a.dtype), "range": _range(a)}
            for name, a in zip(names, outputs, strict=True)
        ]
        console.show_json({"outputs": records, "latency": latency})
        return
    rows = [
        (name, str(a.shape), str(a.dtype), *(f"{v:.6g}" for v in _range(a)))
        for name, a in zip(names, outputs, strict=True)
    ]
    console.show(tables.table(("output", "shape", "dtype", "min", "max"), rows))
    if latency:
        times = [f"{k.removesuffix('_us')} {v:.1f} us" for k, v in latency.items() if "_us" in k]
        console.show(f"{latency['repeat']} calls: {', '.join(times)}")


def _range(array: np.ndarray) -> list[float]:
    """Return the smallest and the largest element, nothing for an empty array."""
    return [float(array.min()), float(array.max())] if array.size else []
