"""Step 8: tune three operators, and time random schedules: what the model of a chip learns from."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.gpu import prepare, tune
from benchmarks.gpu.cases import Case
from benchmarks.gpu.queue import mends
from benchmarks.gpu.queue.step import Piece, Plan, Row
from tvm_sparse.tuning.database import Database
from tvm_sparse.tuning.tuner import Settings

TUNED = (mends.SQUARE.case(32), mends.FC6.case(8), mends.GATES.case(8))
RANDOM = mends.SQUARE.case(64)
TRIALS, SCHEDULES = 64, 40
LIMIT = 300.0


def pieces(plan: Plan) -> Iterator[Piece]:
    """Yield a piece for each operator, then one of random schedules."""
    key = plan.key(*prepare.KERNEL_CODE, "tuning")
    tuned = (mends.TINY.case(1),) if plan.small else TUNED
    random = mends.TINY.case(16) if plan.small else RANDOM
    for case in tuned:
        settings = Settings(trials=2 if plan.small else TRIALS, population=8 if plan.small else 64)
        run = partial(_tuned, case, settings, plan, "tuned")
        yield Piece(case.name, "tune", key, run, seconds=60.0, limit=LIMIT + 60)
    # The first batch is drawn before the search has learned anything.
    count = 2 if plan.small else SCHEDULES
    settings = Settings(trials=count, batch=count, population=max(8, count))
    run = partial(_tuned, random, settings, plan, "random")
    yield Piece(f"random: {random.name}", "schedules", key, run, seconds=60.0, limit=LIMIT + 60)


def _tuned(case: Case, settings: Settings, plan: Plan, folder: str) -> Iterator[Row]:
    """Yield the row of a session, with its records as the lines of a database."""
    place = prepare.BUILT / f"records_{folder}_{plan.key()}"
    deadline = time.monotonic() + LIMIT
    found = tune.rows(
        set(),
        plan.target,
        deadline=deadline,
        workers=plan.workers,
        cases=[case],
        settings=settings,
        records=place,
        keep=lambda path: None,
    )
    for row in found:
        # The tuner's timer (tuning/gpu_timer.py) writes before each call, and reads nothing.
        yield {**row, "flush": "dirty", "records": _lines(place)}


def _lines(place: Path) -> list[str]:
    return [record.model_dump_json(exclude_none=True) for record in Database(place)]


def tells(rows: list[Row]) -> str:
    """Say what tuning gains."""
    gains = [1 / row["ratio"] for row in rows if row["ratio"]]
    trials = sum(row["trials"] for row in rows)
    return f"{trials} schedules, {min(gains):.2f} to {max(gains):.2f}x the defaults"
