"""``python -m tvm_sparse_runtime``: describe, run and time an artifact."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from . import engine, programs, verification
from .array_files import BFLOAT16, arguments, is_rounded, numbers, read_array, write_array
from .errors import SparseRuntimeError, shown
from .library import Library, load
from .pool import Pool
from .version import __version__


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status (0 done, 1 refused, 2 wrong usage)."""
    options = _parser().parse_args(argv)
    try:
        print(_run(options))
    except SparseRuntimeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tvm_sparse_runtime",
        description="Run an exported model. Without --input, print what it takes and gives.",
    )
    version = f"tvm-sparse-runtime {__version__}"
    parser.add_argument("--version", action="version", version=version)
    parser.add_argument("artifact", help="directory that library.export() wrote")
    parser.add_argument(
        "--input", action="append", default=[], metavar="X.npy", help="once for each input"
    )
    parser.add_argument(
        "--output", action="append", default=[], metavar="Y.npy", help="once for each output"
    )
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="timed runs (default 1)")
    parser.add_argument("--threads", type=int, help="default: all physical cores")
    parser.add_argument(
        "--sessions", type=int, default=1, metavar="N", help="runs side by side (default 1)"
    )
    parser.add_argument(
        "--no-verify", action="store_true", help="leave out the checksum of the weights"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def _run(options: argparse.Namespace) -> str:
    """Do what the options ask for and return the text for stdout."""
    if options.output and not options.input:
        raise SparseRuntimeError("--output", "given without --input", "an input to run on")
    for name, number in (("--repeat", options.repeat), ("--sessions", options.sessions)):
        if number < 1:
            raise SparseRuntimeError(name, shown(number), "at least 1")
    begin = time.perf_counter()
    library = load(options.artifact, threads=options.threads, verify=not options.no_verify)
    record: dict[str, Any] = {
        "artifact": str(library.path),
        "inputs": [spec.to_json() for spec in library.inputs],
        "outputs": [spec.to_json() for spec in library.outputs],
        "threads": library.threads or engine.function("tvm_sparse.threads_used")(),
        "ranges": [*library.ranges],
        "libraries": [*library.libraries],
        "programs": programs.lines(verification.read_manifest(library.path), library.manifest),
        "load_ms": (time.perf_counter() - begin) * 1e3,
    }
    if options.output and len(options.output) != len(library.outputs):
        raise SparseRuntimeError(
            "--output", f"{len(options.output)} names", f"{len(library.outputs)} or none"
        )
    lines = [f"{library.path}", *(f"  input  {spec}" for spec in library.inputs)]
    lines += [f"  output {spec}" for spec in library.outputs]
    told = (*library.ranges, *record["programs"], *library.libraries)
    lines += [f"  {line}" for line in told]
    if options.input:
        arrays = [read_array(name) for name in options.input]
        inputs = arguments(arrays, library.inputs, library.outputs)
        results, times = _timed(library, inputs, options.repeat)
        for name, result in zip(options.output, results, strict=False):
            write_array(name, numbers(result))
        lines += _converted(options, arrays, library)
        record["runs"] = len(times)
        record["median_ms"] = float(np.median(times))
        record["p99_ms"] = float(np.percentile(times, 99))
        lines.append(
            f"  {len(times)} runs after warm-up, {record['threads']} threads: "
            f"median {record['median_ms']:.3f} ms, p99 {record['p99_ms']:.3f} ms"
        )
        if options.sessions > 1:
            pool = library.pool(options.sessions, threads=options.threads)
            record |= {"sessions": pool.sessions, "threads_each": pool.threads}
            record["runs_a_second"] = _throughput(pool, inputs, options.repeat)
            lines.append(
                f"  {pool.sessions} runs side by side, {pool.threads} threads each: "
                f"{record['runs_a_second']:.1f} a second"
            )
    return json.dumps(record) if options.json else "\n".join(lines)


def _converted(
    options: argparse.Namespace, arrays: Sequence[np.ndarray], library: Library
) -> list[str]:
    """Return a line for each file whose numbers are others than the program's."""
    read = zip(options.input, arrays, library.inputs)
    written = zip(options.output, library.outputs)
    return [
        *(f"  {name}: float32, rounded to bfloat16" for name, a, s in read if is_rounded(a, s)),
        *(f"  {name}: bfloat16, written as float32" for name, s in written if s.dtype == BFLOAT16),
    ]


def _throughput(pool: Pool, inputs: Sequence[Any], repeat: int) -> float:
    """Return the runs a second of as many callers as there are sessions, ``repeat`` each."""
    with ThreadPoolExecutor(pool.sessions) as callers:
        for _ in range(2):  # the first round warms up
            begin = time.perf_counter()
            calls = [callers.submit(pool, *inputs) for _ in range(pool.sessions * repeat)]
            for call in calls:
                call.result()
    return len(calls) / (time.perf_counter() - begin)


def _timed(
    library: Library, inputs: Sequence[Any], repeat: int
) -> tuple[tuple[Any, ...], list[float]]:
    """Return the outputs and the milliseconds of ``repeat`` runs after one that warms up."""
    result, times = library.run(*inputs), []
    for _ in range(repeat):
        begin = time.perf_counter()
        library.run(*inputs)
        times.append((time.perf_counter() - begin) * 1e3)
    return result, times


if __name__ == "__main__":
    sys.exit(main())
