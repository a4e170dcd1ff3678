"""Trials a minute of our tuner and of MetaSchedule's stock builder and runner, on the same task.

    python -m benchmarks.tuning_throughput

Both search the same space of one balanced layer with the same evolutionary search and cost model,
build with as many processes and measure on the same machine. The stock builder gets ten minutes a
batch: with its own limit of 30 seconds, every build fails on a busy machine. Writes
``results/tuning_throughput.json``.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import tempfile
import time
from pathlib import Path
from typing import Any

STOCK_BUILD_SECONDS = 600.0


def main() -> None:
    options = _arguments()
    os.environ["TVM_FFI_DISABLE_TORCH_C_DLPACK"] = "1"
    os.environ["TVM_NUM_THREADS"] = str(options.threads)
    from benchmarks.harness.common import environment, save

    task, target = layer()
    rows = {}
    for name, tune in (("ours", ours), ("stock", stock)):
        rows[name] = tune(task, target, options)
        print(name, json.dumps(rows[name]), flush=True)
    ratio = rows["ours"]["trials_a_minute"] / rows["stock"]["trials_a_minute"]
    about = {"task": task.workload.computation, "batch": options.batch, "workers": options.workers}
    content = {**about, **rows, "ratio": ratio, "environment": environment(options.threads)}
    print(f"{ratio:.1f} times as many trials a minute:", save("tuning_throughput", content))


def layer() -> tuple[Any, Any]:
    """Return the task of a 1024 x 1024 layer with 4 of 16 weights left, and the target."""
    import numpy as np

    from tvm_sparse.base.targets import parse_target
    from tvm_sparse.formats.balanced import BalancedFormat
    from tvm_sparse.ops.contractions.balanced import balanced
    from tvm_sparse.ops.contractions.contraction import Contraction
    from tvm_sparse.schedules.build import rules_for
    from tvm_sparse.tuning.space import space_of
    from tvm_sparse.tuning.tasks import Task
    from tvm_sparse.tuning.workload import workload_of

    target = parse_target("cpu").target
    contraction = Contraction((128,), 1024, 1024)
    rng = np.random.default_rng(0)
    kept = rng.random((1024, 64, 16)).argsort(-1) < 4
    matrix = rng.standard_normal((1024, 1024), dtype=np.float32) * kept.reshape(1024, 1024)
    format = BalancedFormat.of(matrix)
    func = balanced(contraction, format, target)
    fixed = dict(enumerate(format.encode(matrix).values(), start=1))
    space, workload = space_of(func, target, rules_for(target)), workload_of(func, target)
    assert space is not None
    assert workload is not None
    return Task("layer", workload, space, fixed=fixed), target


def ours(task: Any, target: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Tune with the package, from nothing; the start of all processes counts."""
    from tvm_sparse.tuning.database import Database
    from tvm_sparse.tuning.measurer import LocalMeasurer
    from tvm_sparse.tuning.tuner import Settings, Tuner

    settings = Settings(trials=options.trials, batch=options.batch, threads=options.workers)
    with tempfile.TemporaryDirectory() as directory:
        database = Database(Path(directory) / "records")
        (work := Path(directory) / "work").mkdir()
        start = time.perf_counter()
        with LocalMeasurer(target, work, options.workers) as measurer:
            session = Tuner(measurer, database, settings).run([task])
        seconds = time.perf_counter() - start
        good = sum(r.ratio is not None for r in database if not r.confirmed)
    return _row(session.trials, good, seconds)


def stock(task: Any, target: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Tune with ``tune_tir``, its builder and its runner, from nothing."""
    import tvm
    from tvm.s_tir import meta_schedule as ms

    logging.disable(logging.INFO)
    # Its counter of operations knows no vectors; the number is only for its printed table.
    counted = task.func.with_attr("estimated_flops", 1)
    space = ms.space_generator.ScheduleFn(
        lambda schedule: task.space.rule.apply(schedule.mod["main"], target, tunable=True),
        sch_rules=[],
        postprocs=[],
        mutator_probs={ms.mutator.MutateTileSize(): 1.0},
    )
    with tempfile.TemporaryDirectory() as directory:
        start = time.perf_counter()
        database = ms.tune_tir(
            tvm.IRModule({"main": counted}),
            target,
            directory,
            options.stock_trials,
            num_trials_per_iter=options.batch,
            builder=ms.builder.LocalBuilder(
                max_workers=options.workers, timeout_sec=STOCK_BUILD_SECONDS
            ),
            space=space,
            num_tuning_cores=options.workers,
            seed=1,
        )
        seconds = time.perf_counter() - start
        records = database.get_all_tuning_records()
    good = sum(all(float(s) < 1e9 for s in record.run_secs) for record in records)
    return _row(len(records), good, seconds)


def _row(trials: int, good: int, seconds: float) -> dict[str, Any]:
    return {
        "trials": trials,
        "measured": good,
        "seconds": seconds,
        "trials_a_minute": 60 * good / seconds,
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=128)
    parser.add_argument("--stock-trials", type=int, default=32)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--threads", type=int, default=1, help="of the measured code")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    return parser.parse_args()


if __name__ == "__main__":
    main()
