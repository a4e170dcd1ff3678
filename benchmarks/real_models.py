"""Trained models of published packages: right, how fast beside others, what pruning costs them.

    python -m benchmarks.real_models --folder build/models    # all of them
    python -m benchmarks.real_models --folder build/models --names silero-vad "magika file types"

    python -m benchmarks.real_models --folder build/models --train 300   # then, with training

Writes ``results/real_models.json``; what was made in the folder is taken again.

Each file is compiled as it was published, with open extents where it has some. Then with the
weights that `ts.prune.onnx` leaves after one pass over 4 to 32 inputs, without training: at equal
levels, and at those of plans for a speed (`ts.plan`). They are put into int8 by `ts.quantize_onnx`.
Programs run in turns with one thread, one input a call. onnxruntime and OpenVINO run the published
file and the same int8 file.

With ``--train``, files with 75 % zeros, and those of the plan for 2x, learn for so many seconds
what the published ones give, from other inputs than are scored. Their scores are added to rows that
are there; nothing is timed.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cases.trained_files import FILES, SEED, TEST, Call, TrainedFile
from benchmarks.harness import common
from benchmarks.harness.packages import unpacked
from benchmarks.harness.threads import limit_threads
from benchmarks.peers.published_files import Program, onnxruntime_program, others, ours

NAME = "real_models"
PUBLISHED, INT8 = "published", "int8"
ZEROS = {"50 % zeros": 0.5, "75 % zeros": 0.75}
PLANS = {"plan for 1.5x": 1.5, "plan for 2x": 2.0}
LEARNING = {"75 % zeros": "zeros75", "plan for 2x": "plan20"}
"""What is trained, and the name of its file."""
SAMPLES, AT_ONCE = 512, 8
"""Inputs to learn from, and how many a step takes where the file lets it choose."""
TOLERANCE = 2e-3
"""Largest error of the published file's outputs beside onnxruntime's, relative to the largest."""


def main() -> None:
    options = _arguments()
    limit_threads(1)
    warnings.simplefilter("ignore")
    here = common.environment(1)
    rows = {row["model"]: row for row in common.load(NAME).get("rows", [])}
    for case in FILES:
        if options.names and case.name not in options.names:
            continue
        place = unpacked(case.package, options.folder)
        if place is None:
            continue
        if options.train is not None:
            if not case.prunable or case.name not in rows:
                continue
            row = rows[case.name]
            for variant in LEARNING:
                if f"ours, {variant}" in row["scores"]:
                    found = trained(case, place, variant, options.train)
                    row.setdefault("training", {})[variant] = found["training"]
                    row["scores"] |= found["scores"]
        else:
            row = measured(case, place, options) | {"cpu": here["cpu"], "shared": options.shared}
        print(row, flush=True)
        rows[case.name] = row
        ordered = [rows[one.name] for one in FILES if one.name in rows]
        common.save(NAME, {"environment": here, "rows": ordered})


def measured(case: TrainedFile, place: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Return the row of a file: errors, scores and times of every program that there is."""
    import tvm_sparse as ts

    path, work = _found(case, place), _work(case, place)
    calls = case.calls(path, SEED, case.calibration), case.calls(path, SEED + 1, TEST)
    row: dict[str, Any] = {"model": case.name, "package": case.package, "measure": case.measure}
    row |= {
        "calibration": case.calibration,
        "bytes": path.stat().st_size,
        "shape": _shapes(calls[1][0]),
    }
    programs: dict[str, Program] = {}
    programs |= others(path, PUBLISHED, row)
    for variant, file in _variants(case, path, calls[0], work, row):
        try:
            begin = time.perf_counter()
            artifact = _artifact(file, work / f"{file.stem}.tvm-sparse", ts)
            row.setdefault("compile_s", {})[variant] = round(time.perf_counter() - begin, 1)
        except ts.SparseError as error:
            row.setdefault("refused", {})[variant] = str(error)[:300]
            continue
        programs[f"ours, {variant}"] = ours(artifact, file)
        if variant == INT8:
            programs |= others(file, INT8, row)
    return row | _judged(case, programs, calls[1], options.rounds)


def trained(case: TrainedFile, place: Path, variant: str, seconds: float) -> dict[str, Any]:
    """Return scores of a pruned file that has learned, in float32 and int8, and what it took."""
    import tvm_sparse as ts

    path, work, stem = _found(case, place), _work(case, place), LEARNING[variant]
    file, whole = work / f"{stem}-trained.onnx", work / f"{stem}-trained-int8.onnx"
    told = file.with_suffix(".json")
    if not told.exists():
        calls = case.calls(path, SEED + 2, SAMPLES)
        begin = time.process_time()
        student, teacher = ts.OnnxModule(work / f"{stem}.onnx"), ts.OnnxModule(path)
        batches = _batches(path, calls)
        together = AT_ONCE if len(batches) == len(calls) else 1
        losses = ts.prune.distil(student, teacher, batches, seconds=seconds, accumulate=together)
        student.save(file)
        facts = {"steps": len(losses), "seconds": round(time.process_time() - begin)}
        told.write_text(json.dumps(facts), encoding="utf-8")
    if not whole.exists():
        feeds = [call.feed for call in case.calls(path, SEED, case.calibration)]
        ts.quantize_onnx(file, feeds, output=whole)
    programs = {f"onnxruntime, {PUBLISHED}": onnxruntime_program(path)}
    for name, one in ((f"{variant}, trained", file), (f"{variant}, trained, {INT8}", whole)):
        programs[f"ours, {name}"] = ours(_artifact(one, work / f"{one.stem}.tvm-sparse", ts), one)
    test = case.calls(path, SEED + 1, TEST)
    outputs = {name: [run(call.feed) for call in test] for name, run in programs.items()}
    return {"scores": _scores(case, outputs, test), "training": json.loads(told.read_text())}


def _batches(path: Path, calls: list[Call]) -> list[dict[str, np.ndarray]]:
    """Return the inputs of some calls at once, or of one where the file has a fixed first axis."""
    import onnx

    graph = onnx.load(path, load_external_data=False).graph
    shapes = [value.type.tensor_type.shape.dim for value in graph.input]
    opened = all(len(dims) and not dims[0].dim_value for dims in shapes)
    single = all(len(x) == 1 for x in calls[0].feed.values() if x.ndim)
    size = AT_ONCE if opened and single else 1
    feeds = [call.feed for call in calls]
    return [
        {name: np.concatenate([f[name] for f in feeds[i : i + size]]) for name in feeds[0]}
        if size > 1
        else feeds[i]
        for i in range(0, len(feeds), size)
    ]


def _work(case: TrainedFile, place: Path) -> Path:
    """Return the folder of what is made of a file."""
    found = place.parent / "made" / _found(case, place).stem
    found.mkdir(parents=True, exist_ok=True)
    return found


def _scores(
    case: TrainedFile, outputs: dict[str, list[list[np.ndarray]]], calls: list[Call]
) -> dict[str, float]:
    """Return the mean score of each program."""
    published = outputs[f"onnxruntime, {PUBLISHED}"]
    return {
        name: float(
            np.mean(
                [case.score(f, p, c.label) for f, p, c in zip(found, published, calls, strict=True)]
            )
        )
        for name, found in outputs.items()
    }


def _judged(
    case: TrainedFile, programs: dict[str, Program], calls: list[Call], rounds: int
) -> dict[str, Any]:
    """Return scores of all programs, the error of the published one, and times in ms."""
    outputs = {name: [run(call.feed) for call in calls] for name, run in programs.items()}
    published = outputs[f"onnxruntime, {PUBLISHED}"]
    found: dict[str, Any] = {"scores": _scores(case, outputs, calls)}
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
    case: TrainedFile, path: Path, calibration: list[Call], work: Path, row: dict[str, Any]
) -> Iterator[tuple[str, Path]]:
    """Yield the files to compile with their names, written where they are not yet."""
    import tvm_sparse as ts
    from tvm_sparse.pruning.methods.balanced import BalancedPruning

    yield PUBLISHED, path
    if not case.prunable:
        return
    feeds = [call.feed for call in calibration]
    files = {INT8: path}
    for name, sparsity in ZEROS.items():
        file = work / f"zeros{round(100 * sparsity)}.onnx"
        if not file.exists():
            ts.prune.onnx(path, BalancedPruning(sparsity), calibration=feeds, output=file)
        files[name] = file
        yield name, file
    for name, speedup in PLANS.items():
        file = work / f"plan{round(10 * speedup)}.onnx"
        try:
            row.setdefault("plans", {})[name] = _planned(path, feeds, speedup, file)
        except ts.SparseError as error:
            row.setdefault("refused", {})[name] = str(error)[:300]
            continue
        files[name] = file
        yield name, file
    del files["50 % zeros"]
    for name, source in files.items():
        file = work / f"{INT8 if source == path else f'{source.stem}-{INT8}'}.onnx"
        if not file.exists():
            ts.quantize_onnx(source, feeds, output=file)
        yield name if name == INT8 else f"{name}, {INT8}", file


def _planned(
    path: Path, feeds: list[dict[str, np.ndarray]], speedup: float, file: Path
) -> dict[str, float]:
    """Write a file that is pruned by a plan, if it is not there; return what the plan promised."""
    import tvm_sparse as ts

    told = file.with_suffix(".json")
    if not told.exists():
        begin = time.process_time()
        plan = ts.plan(path, feeds, speedup=speedup)
        ts.prune.onnx(path, plan.method, calibration=feeds, output=file)
        promised = {"ms": plan.latency_ms, "drop": plan.drop, "zeros": plan.sparsity}
        promised |= {"speedup": plan.speedup, "seconds": round(time.process_time() - begin)}
        told.write_text(json.dumps(promised), encoding="utf-8")
    found: dict[str, float] = json.loads(told.read_text(encoding="utf-8"))
    return found


def _artifact(file: Path, place: Path, ts: Any) -> Path:
    """Compile ``file`` into ``place``, unless it is there."""
    if not place.exists():
        ts.compile(file).export(place)
    return place


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
    parser.add_argument("--train", type=float, metavar="SECONDS", help="train what was pruned")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--shared", action="store_true", help="say that others used the machine")
    return parser.parse_args()


if __name__ == "__main__":
    main()
