"""What tuning gains on whole pruned networks, over the default schedules.

    python -m benchmarks.tuning --networks resnet50 --slowest 5 --per-task 64
    python -m benchmarks.tuning --networks resnet50 mobilenet_v2 bert_base --trials 2000 --ship

Tunes each network (a session that was interrupted goes on), compiles it with and without the
records, twice each, verifies all against PyTorch and times them in turns. Writes
``results/tuning.json``; networks measured before keep their rows. ``--ship`` copies the best
records into the package.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.harness.threads import limit_threads

TOLERANCE = 2e-4
SHIPPED = 0.95
"""Ratio to the default below which a record is worth shipping."""

ORDER = ("default", "tuned", "tuned", "default")
"""Programs of one process in the order of compilation: a later one is up to 2 % slower."""

KEEP = {"75 %": 4, "87.5 %": 2, "93.75 %": 1}


def main() -> None:
    options = _arguments()
    limit_threads(options.threads)
    from benchmarks.harness.common import load, save

    rows = load("tuning").get("rows", [])
    for network in options.networks:
        row = measure(network, options)
        key = _key(row)
        rows = [r for r in rows if _key(r) != key] + [row]
        save("tuning", {"rows": rows})
        print(json.dumps(summary(row)), flush=True)
    if options.ship:
        ship(options.database)


def measure(network: str, options: argparse.Namespace) -> dict[str, Any]:
    """Tune one network, compare it with itself, and return its row."""
    import torch

    import tvm_sparse as ts
    from benchmarks.cases.networks import build, prune_balanced
    from benchmarks.harness.common import environment, interleaved

    torch.set_num_threads(options.threads)
    model, x = build(network, options.batch)
    if options.level != "dense":
        prune_balanced(model, keep=KEEP[options.level])
    with torch.no_grad():
        expected = model(x).numpy()
    loaded = ts.load(model, (x,))
    config = ts.Config(measure=not options.no_measure)
    report = tune(loaded, config, options)
    ways: dict[str, Any] = {
        "default": {"config": replace(config, tuned=False)},
        "tuned": {"config": config, "database": options.database},
    }
    libraries = [ts.compile(loaded, **ways[name]) for name in ORDER]
    inputs = x.numpy()
    errors = verified(network, libraries, inputs, expected)
    programs = {place: partial(library, inputs) for place, library in enumerate(libraries)}
    places = [
        t["median_us"] for t in interleaved(programs, options.rounds, options.seconds).values()
    ]
    times = {
        name: sum(us for n, us in zip(ORDER, places, strict=True) if n == name) / ORDER.count(name)
        for name in ways
    }
    gain = times["default"] / times["tuned"]
    schedules = [d.schedule for d in libraries[ORDER.index("tuned")].decisions]
    return {
        "network": network,
        "batch": options.batch,
        "level": options.level,
        "threads": options.threads,
        "slowest": options.slowest,
        "per_task": options.per_task,
        "tuning": report.to_json(),
        "trials_a_minute": 60 * report.trials / report.seconds,
        "times_us": times,
        "places_us": places,
        "errors": errors,
        "gain": gain,
        "tuned_layers": sum(s != "default" for s in schedules),
        "environment": environment(options.threads),
    }


def summary(row: dict[str, Any]) -> dict[str, Any]:
    """Return what is printed of a row."""
    gains = (round(task["speedup"], 2) for task in row["tuning"]["tasks"])
    return {
        "network": row["network"],
        "level": row["level"],
        "default": f"{row['times_us']['default'] / 1e3:.3f} ms",
        "gain": f"{row['gain']:.3f}x",
        "tuned layers": row["tuned_layers"],
        "best tasks": sorted(gains, reverse=True)[:8],
    }


def tune(model: Any, config: Any, options: argparse.Namespace) -> Any:
    """Tune ``model`` and return the report."""
    import tvm_sparse as ts
    from tvm_sparse.cli.tuning_view import line
    from tvm_sparse.tuning.tuner import Settings

    report = ts.tune(
        model,
        trials=options.trials,
        database=options.database,
        config=config,
        formats=options.formats,
        settings=Settings(
            slowest=options.slowest,
            per_task=options.per_task,
            batch=options.step,
            reconfirm=options.reconfirm,
            threads=os.cpu_count() or 1,
        ),
        progress=lambda session: print(line(session), file=sys.stderr, flush=True),
    )
    if report.interrupted:
        raise SystemExit("interrupted; the same command goes on from here")
    return report


def verified(network: str, libraries: list[Any], inputs: Any, expected: Any) -> list[float]:
    """Return the error of each library against PyTorch; end if one is wrong."""
    from benchmarks.harness.common import relative_error

    errors = [relative_error(library(inputs), expected) for library in libraries]
    if not max(errors) < TOLERANCE:
        raise SystemExit(f"{network}: outputs differ from PyTorch's: {errors}")
    return errors


def ship(database: Path) -> None:
    """Write the best records of ``database`` into the package, one file a target.

    Only confirmed ones with a clear gain; what the package has of other functions stays.
    """
    from tvm_sparse.tuning.database import Database
    from tvm_sparse.tuning.recorded import shipped_file

    found = [r for r in Database(database).bests() if r.confirmed and (r.ratio or 1.0) < SHIPPED]
    for target in {record.target for record in found}:
        path = shipped_file(target)
        records = {(*r.anchor, r.function): r for r in Database(path)}
        records |= {(*r.anchor, r.function): r for r in found if r.target == target}
        path.parent.mkdir(exist_ok=True)
        lines = [r.model_dump_json(exclude_none=True) + "\n" for r in records.values()]
        path.write_text("".join(sorted(lines)))
        print(f"{len(lines)} records in {path.name}")


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    names = ("network", "batch", "level", "threads", "slowest", "per_task")
    return tuple(row[name] for name in names)


def _arguments() -> argparse.Namespace:
    from benchmarks.cases.networks import NETWORKS

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=["resnet50"])
    parser.add_argument("--level", choices=["dense", *KEEP], default="87.5 %")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--trials", type=int, default=100_000, help="in all; see --per-task")
    parser.add_argument("--slowest", type=int, help="tune only this many functions")
    parser.add_argument("--per-task", type=int, default=64)
    parser.add_argument("--step", type=int, default=48, help="schedules of one task in a row")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.15, help="of each program in a round")
    parser.add_argument("--no-measure", action="store_true", help="choose by the cost model")
    parser.add_argument("--formats", action="store_true", help="tune near other formats, too")
    parser.add_argument("--reconfirm", action="store_true", help="measure the best again")
    parser.add_argument("--ship", action="store_true", help="put the best into the package")
    parser.add_argument("--database", type=Path, default=Path("build/tuning"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
