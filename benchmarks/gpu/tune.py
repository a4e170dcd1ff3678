"""Tune the operators of the papers' shapes: MetaSchedule, every candidate verified and timed cold.

All trials go to a database next to the built kernels, from which an interrupted case goes on; what
gained is put into the package, and a row of the results says what was found.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.gpu import prepare
from benchmarks.gpu.cases import Case, papers
from benchmarks.gpu.prepare import Kernel
from benchmarks.tuning import ship
from tvm_sparse.base.targets import parse_target
from tvm_sparse.schedules.build import rules_for
from tvm_sparse.tuning.database import Database
from tvm_sparse.tuning.interrupt import Stop
from tvm_sparse.tuning.measurer import LocalMeasurer, Measurer
from tvm_sparse.tuning.record import Source
from tvm_sparse.tuning.space import space_of
from tvm_sparse.tuning.state import TaskState, TuningSession
from tvm_sparse.tuning.tasks import Task
from tvm_sparse.tuning.tuner import Settings, Tuner
from tvm_sparse.tuning.workload import workload_of

TRIALS = 64
"""Schedules of each operator."""

Measure = Callable[[Any, Path, int], Measurer]


def rows(
    done: set[str],
    target: str,
    *,
    deadline: float,
    workers: int,
    cases: Iterable[Case] | None = None,
    measure: Measure = LocalMeasurer,
    settings: Settings | None = None,
    records: Path | None = None,
    keep: Callable[[Path], Any] | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield a row for each operator that is not ``done``, until ``deadline`` (monotonic).

    All trials go to the database in ``records``; ``keep`` takes it when an operator is tuned:
    :func:`benchmarks.tuning.ship` puts the best into the package.
    """
    resolved = parse_target(target).target
    database = Database(records or prepare.BUILT / "records")
    settings = settings or Settings(trials=TRIALS, threads=workers)
    for case in papers() if cases is None else cases:
        if case.name in done or time.monotonic() > deadline:
            continue
        stop = Stop()

        def watch(_: TuningSession, stop: Stop = stop) -> None:
            stop.asked = time.monotonic() > deadline

        with tempfile.TemporaryDirectory(prefix="tvm-sparse-tune-") as place:
            with measure(resolved, Path(place), workers) as measurer:
                session = Tuner(measurer, database, settings, watch, stop).run(
                    [task_of(case, resolved)]
                )
        if session.skipped:
            raise RuntimeError(f"{case.name}: {session.skipped[case.name]}")
        if stop:
            return
        (keep or ship)(database.path)
        yield _row(case, session.states[0], database, measurer.source)


def task_of(case: Case, target: Any) -> Task:
    """Return the operator that the compiler makes of ``case``, with its weight, as a task."""
    kernel = Kernel(case, case.format)
    option = kernel.option(target)
    func = option.build()
    workload, space = workload_of(func, target), space_of(func, target, rules_for(target))
    if workload is None or space is None:
        raise LookupError(f"{case.name}: nothing to tune in {option.kernel}")
    fixed = dict(enumerate(kernel.arrays(option.format), 1))
    return Task(case.name, workload, space, (case.layer,), 1, fixed)


def _row(case: Case, state: TaskState, records: Database, source: Source) -> dict[str, Any]:
    """Return what was found for one operator; measured times are those of the confirmation."""
    best = records.best(state.task.workload, state.task.space, source)
    ratios = [ratio for ratio in state.ratios if ratio]
    return {
        "case": case.name,
        "rule": state.task.space.rule_name,
        "trials": len(state.ratios),
        "failed": len(state.ratios) - len(ratios),
        "default": state.task.space.default.values,
        "default_us": state.default_seconds * 1e6,
        "best": best.values if best else None,
        "best_us": best.microseconds if best else None,
        "ratio": best.ratio if best else 1.0,
    }
