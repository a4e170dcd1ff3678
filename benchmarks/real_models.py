"""Trained models of published packages: right, how fast beside others, what pruning costs them.

    python -m benchmarks.real_models --folder build/models    # all of them
    python -m benchmarks.real_models --folder build/models --names silero-vad "magika file types"

Writes ``results/real_models.json``; what was made in the folder is taken again.

Each file is compiled as it was published, with open extents where it has some. Then with the
weights that `ts.prune.onnx` leaves after one pass over 4 to 32 inputs, without training. Both are
put into int8 by `ts.quantize_onnx`. Programs run in turns with one thread, one input a call.
onnxruntime and OpenVINO run the published file and the same int8 file.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cases.trained_files import FILES, SEED, TEST, Call, TrainedFile
from benchmarks.harness import common
from benchmarks.harness.packages import unpacked

NAME = "real_models"
PUBLISHED, INT8 = "published", "int8"
ZEROS = {"50 % zeros": 0.5, "75 % zeros": 0.75}
SPARSE_INT8 = "75 % zeros, int8"
TOLERANCE = 2e-3
"""Largest error of the published file's outputs beside onnxruntime's, relative to the largest."""

Program = Callable[[dict[str, np.ndarray]], list[np.ndarray]]


def main() -> None:
    options = _arguments()
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TVM_NUM_THREADS"):
        os.environ[name] = "1"
    warnings.simplefilter("ignore")
    here = common.environment(1)
    rows = {row["model"]: row for row in common.load(NAME).get("rows", [])}
    for case in FILES:
        if options.names and case.name not in options.names:
            continue
        place = unpacked(case.package, options.folder)
        if place is None:
            continue
        row = measured(case, place, options) | {"cpu": here["cpu"], "shared": options.shared}
        print(row, flush=True)
        rows[case.name] = row
        ordered = [rows[one.name] for one in FILES if one.name in rows]
        common.save(NAME, {"environment": here, "rows": ordered})


def measured(case: TrainedFile, place: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Return the row of a file: errors, scores and times of every program that there is."""
    import tvm_sparse as ts

    path = _found(case, place)
    calls = case.calls(path, SEED, case.calibration), case.calls(path, SEED + 1, TEST)
    work = place.parent / "made" / path.stem
    work.mkdir(parents=True, exist_ok=True)
    row: dict[str, Any] = {"model": case.name, "package": case.package, "measure": case.measure}
    row |= {
        "calibration": case.calibration,
        "bytes": path.stat().st_size,
        "shape": _shapes(calls[1][0]),
    }
    programs: dict[str, Program] = {}
    programs |= _peers(path, PUBLISHED, row)
    for variant, file in _variants(case, path, calls[0], work):
        try:
            begin = time.perf_counter()
            artifact = _artifact(file, work / f"{file.stem}.tvm-sparse", ts)
            row.setdefault("compile_s", {})[variant] = round(time.perf_counter() - begin, 1)
        except ts.SparseError as error:
            row.setdefault("refused", {})[variant] = str(error)[:300]
            continue
        programs[f"ours, {variant}"] = _ours(artifact, file)
        if variant == INT8:
            programs |= _peers(file, INT8, row)
    return row | _judged(case, programs, calls[1], options.rounds)


def _judged(
    case: TrainedFile, programs: dict[str, Program], calls: list[Call], rounds: int
) -> dict[str, Any]:
    """Return scores of all programs, the error of the published one, and times in ms."""
    outputs = {name: [run(call.feed) for call in calls] for name, run in programs.items()}
    published = outputs[f"onnxruntime, {PUBLISHED}"]
    scores = {
        name: float(
            np.mean(
                [case.score(f, p, c.label) for f, p, c in zip(found, published, calls, strict=True)]
            )
        )
        for name, found in outputs.items()
    }
    found = {"scores": scores}
    if f"ours, {PUBLISHED}" in outputs:
        pairs = zip(outputs[f"ours, {PUBLISHED}"], published, strict=True)
        found["error"] = max(
            common.relative_error(o, w)
            for one, other in pairs
            for o, w in zip(one, other, strict=True)
        )
    feed = calls[0].feed
    timed = {name: (lambda run=run: run(feed)) for name, run in programs.items()}
    times = common.interleaved(timed, rounds, 0.03)
    return found | {"ms": {name: row["median_us"] / 1e3 for name, row in times.items()}}


def _variants(
    case: TrainedFile, path: Path, calibration: list[Call], work: Path
) -> Iterator[tuple[str, Path]]:
    """Yield the files to compile with their names, written where they are not yet."""
    import tvm_sparse as ts
    from tvm_sparse.pruning.methods.balanced import BalancedPruning

    yield PUBLISHED, path
    if not case.prunable:
        return
    feeds = [call.feed for call in calibration]
    sparse = {}
    for name, sparsity in ZEROS.items():
        sparse[name] = work / f"zeros{round(100 * sparsity)}.onnx"
        if not sparse[name].exists():
            method = BalancedPruning(sparsity)
            ts.prune.onnx(path, method, calibration=feeds, output=sparse[name])
        yield name, sparse[name]
    for name, source in ((INT8, path), (SPARSE_INT8, sparse["75 % zeros"])):
        file = work / f"{'int8' if source == path else 'zeros75-int8'}.onnx"
        if not file.exists():
            ts.quantize_onnx(source, feeds, output=file)
        yield name, file


def _artifact(file: Path, place: Path, ts: Any) -> Path:
    """Compile ``file`` into ``place``, unless it is there."""
    if not place.exists():
        ts.compile(file).export(place)
    return place


def _ours(artifact: Path, file: Path) -> Program:
    """Return an artifact as the small runtime opens it."""
    import onnx

    import tvm_sparse_runtime

    session = tvm_sparse_runtime.load(artifact)
    names = [value.name for value in onnx.load(file, load_external_data=False).graph.input]
    return lambda feed: [np.asarray(y) for y in session.run(*(feed[name] for name in names))]


def _peers(file: Path, variant: str, row: dict[str, Any]) -> dict[str, Program]:
    """Return the other runtimes that open ``file``; say in ``row`` why one does not."""
    found = {}
    for name, opened in (("onnxruntime", _onnxruntime), ("openvino", _openvino)):
        try:
            found[f"{name}, {variant}"] = opened(file)
        except RuntimeError as error:  # OpenVINO has no other
            why = [text for text in str(error).splitlines() if text.strip()][-1]
            row.setdefault("refused", {})[f"{name}, {variant}"] = why[:200]
    return found


def _onnxruntime(file: Path) -> Program:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(file, options, ["CPUExecutionProvider"])
    return lambda feed: session.run(None, feed)


def _openvino(file: Path) -> Program:
    import openvino

    config = {
        "INFERENCE_NUM_THREADS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = openvino.Core().compile_model(file, "CPU", config).create_infer_request()
    return lambda feed: list(request.infer(feed).values())


def _found(case: TrainedFile, place: Path) -> Path:
    wanted = f"/{case.file}"
    return next(p for p in sorted(place.rglob("*.onnx")) if p.as_posix().endswith(wanted))


def _shapes(call: Call) -> str:
    shapes = (value.shape for value in call.feed.values() if value.shape)
    return ", ".join("x".join(map(str, shape)) for shape in shapes)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.real_models", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where all that is made is kept")
    parser.add_argument("--names", nargs="+", help="models; all without it")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--shared", action="store_true", help="say that others used the machine")
    return parser.parse_args()


if __name__ == "__main__":
    main()
