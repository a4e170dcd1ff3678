"""``tvm-sparse run``: call an artifact on arrays, without torch and without the compiler."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from json import dumps
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from tvm_sparse.base.array_files import read_array
from tvm_sparse.base.made_inputs import made_inputs, sizes, told
from tvm_sparse.cli import console, tables
from tvm_sparse.cli.options import Debug, Json, Sizes, refuse_both
from tvm_sparse.cli.outputs import check_file
from tvm_sparse.errors import InputError
from tvm_sparse_runtime.array_files import BFLOAT16, arguments, is_rounded, numbers, write_array
from tvm_sparse_runtime.errors import SparseRuntimeError
from tvm_sparse_runtime.spec import TensorSpec

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
    at: Sizes = None,
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
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.json", help="Write when each kernel ran, for ui.perfetto.dev; some calls."
        ),
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Load an artifact, call it, write its outputs, and time it if asked."""
    with console.errors(debug):
        check_file(trace)
        refuse_both(input, at)
        import tvm_sparse_runtime as runtime
        from tvm_sparse_runtime.trace import trace as traced

        library = runtime.load(artifact, threads=threads)
        given = _inputs(library, input, _one(at))
        arrays = arguments(given, library.inputs, library.outputs)
        outputs = [numbers(found) for found in library.run(*arrays)]
        _save(outputs, output or [], library.outputs)
        latency = timed(lambda: library.run(*arrays), repeat) if repeat else None
        if trace is not None:
            trace.write_text(dumps(traced(library, arrays)), encoding="utf-8")
        _show(library.outputs, outputs, latency, json)


def _one(at: list[Any] | None) -> dict[str, int] | None:
    """Return the sizes of the one call that is made."""
    if at and len(at) > 1:
        raise typer.BadParameter("one set of sizes makes a call", param_hint="--at")
    return at[0] if at else None


def _inputs(library: Any, files: list[Path] | None, at: dict[str, int] | None) -> list[np.ndarray]:
    if files:
        arrays = [read_array(f) for f in files]
        for file, array, spec in zip(files, arrays, library.inputs, strict=False):
            if is_rounded(array, spec):
                console.note(f"{file}: float32, rounded to bfloat16")
        return arrays
    *others, extents = sizes(library.inputs, library.bounds, at)
    extents = next((e for e in others if _takes(library, e)), extents)
    if extents:
        console.note(f"random inputs {told(extents)}; --at has others")
    return made_inputs(library.inputs, extents)


def _takes(library: Any, extents: dict[str, int]) -> bool:
    """Whether the model runs at these sizes: it may assert others."""
    try:
        library.run(*made_inputs(library.inputs, extents))
    except SparseRuntimeError:
        return False
    return True


def _save(outputs: list[np.ndarray], files: list[Path], specs: Sequence[TensorSpec]) -> None:
    if files and len(files) != len(outputs):
        raise InputError("--output", f"given {len(files)} times", f"{len(outputs)}, one an output")
    for array, file, spec in zip(outputs, files, specs, strict=False):
        write_array(file, array)
        if spec.dtype == BFLOAT16:
            console.note(f"{file}: bfloat16, written as float32")


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
    specs: Sequence[TensorSpec],
    outputs: list[np.ndarray],
    latency: dict[str, float] | None,
    json: bool,
) -> None:
    if json:
        records = [
            {"name": spec.name, "shape": list(a.shape), "dtype": spec.dtype, "range": _range(a)}
            for spec, a in zip(specs, outputs, strict=True)
        ]
        console.show_json({"outputs": records, "latency": latency})
        return
    rows = [
        (spec.name, str(a.shape), spec.dtype, *(f"{v:.6g}" for v in _range(a)))
        for spec, a in zip(specs, outputs, strict=True)
    ]
    console.show(tables.table(("output", "shape", "dtype", "min", "max"), rows))
    if latency:
        times = [f"{k.removesuffix('_us')} {v:.1f} us" for k, v in latency.items() if "_us" in k]
        console.show(f"{latency['repeat']} calls: {', '.join(times)}")


def _range(array: np.ndarray) -> list[float]:
    """Return the smallest and the largest element, nothing for an empty array."""
    return [float(array.min()), float(array.max())] if array.size else []
