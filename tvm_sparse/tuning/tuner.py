"""The tuning loop: propose, build, measure, record; task after task, until the trials are spent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tvm import s_tir

from tvm_sparse.errors import SparseError, UnsupportedError
from tvm_sparse.tuning.database import Database, confirmations
from tvm_sparse.tuning.interrupt import Stop
from tvm_sparse.tuning.measurer import Measured, Measurer
from tvm_sparse.tuning.record import MODELLED, Record, record_of
from tvm_sparse.tuning.scheduler import next_task
from tvm_sparse.tuning.search import Search, cost_model
from tvm_sparse.tuning.space import Point
from tvm_sparse.tuning.state import TaskState, TuningSession
from tvm_sparse.tuning.tasks import Task

PATIENCE = 3
"""Batches in a row without any measurement before the tuner gives up."""


@dataclass(frozen=True)
class Settings:
    """How much to search.

    Parameters
    ----------
    trials
        Schedules to measure in all; those in the database already count.
    per_task
        Limit for each task.
    slowest
        Tune only the tasks that take most of the model's time, this many.
    batch
        Schedules a step.
    finalists, rounds
        Schedules of each task that are measured again at the end, in how many turns.
    reconfirm
        Measure the best again even where nothing new was found: the last confirmation counts.
    population
        Schedules that evolve at a time in the search.
    seed
        Of the search.
    threads
        Of the search and its cost model.
    """

    trials: int = 512
    per_task: int | None = None
    slowest: int | None = None
    batch: int = 16
    finalists: int = 3
    rounds: int = 7
    reconfirm: bool = False
    population: int = 64
    seed: int = 1
    threads: int = 1


class Tuner:
    """Tunes tasks with one measurer and one database.

    ``notify`` hears of every step; when ``stop`` becomes true, the tuner ends after the step that
    it is at. Schedules of ``hints`` are tried first.
    """

    def __init__(
        self,
        measurer: Measurer,
        database: Database,
        settings: Settings,
        notify: Callable[[TuningSession], None] = lambda session: None,
        stop: Stop | None = None,
        *,
        hints: Database | None = None,
    ) -> None:
        self.measurer, self.database, self.settings = measurer, database, settings
        self.hints = hints
        self.notify, self.stop = notify, Stop() if stop is None else stop
        self.session = TuningSession(settings.trials)
        self._model = cost_model(settings.threads)
        self._idle = 0

    def run(self, tasks: Sequence[Task]) -> TuningSession:
        """Tune ``tasks`` and return where the session ended."""
        session = self.session
        for task in self._worth_preparing(tasks):
            if self.stop:
                return session
            self._tell("preparing", task.name)
            try:
                session.states.append(self._prepare(task))
            except UnsupportedError as error:
                session.skipped[task.name] = error.found
        session.states.sort(key=lambda s: -s.seconds)
        del session.states[self.settings.slowest or len(tasks) :]
        session.trials = sum(len(s.ratios) for s in session.states)
        if self.settings.per_task is not None:
            most = sum(max(self.settings.per_task, len(s.ratios)) for s in session.states)
            session.budget = min(session.budget, most)
        while session.trials < session.budget and not self.stop:
            state = next_task(session.states, self.settings.per_task)
            if state is None:
                break
            self._tell("searching", state.task.name)
            self._step(state)
        for state in [] if self.stop else session.states:
            self._tell("confirming", state.task.name)
            self._confirm(state)
        self._tell("done", "")
        return session

    def _tell(self, phase: str, current: str) -> None:
        self.session.phase, self.session.current = phase, current
        self.notify(self.session)

    def _worth_preparing(self, tasks: Sequence[Task]) -> Sequence[Task]:
        """Return ``tasks``, or only the slowest if the database has the times of all of them."""
        slowest = self.settings.slowest
        times = [task.calls * self._recorded_default(task) for task in tasks] if slowest else []
        if slowest is None or 0.0 in times:
            return tasks
        order = sorted(range(len(tasks)), key=lambda i: -times[i])
        return [tasks[i] for i in order[:slowest]]

    def _recorded_default(self, task: Task) -> float:
        """Return the best time of the default that the database has, in us; 0 without any."""
        known = self.database.of(task.workload, task.space, self.measurer.source)
        mine = (r.default_microseconds for r in known if r.function == task.workload.function)
        return min(filter(None, mine), default=0.0)

    def _prepare(self, task: Task) -> TaskState:
        """Measure the default, then take what the database knows of this function."""
        prepared = self.measurer.prepare(task)
        baseline = self.measurer.baseline(prepared)
        if baseline.seconds is None:
            raise UnsupportedError(f"function '{task.name}'", f"is not timed: {baseline.error}")
        known = self.database.of(task.workload, task.space, self.measurer.source)
        mine = [r for r in known if r.function == task.workload.function]
        last = max((i + 1 for i, r in enumerate(mine) if r.confirmed), default=0)
        since = 0 if self.settings.reconfirm else last
        default = record_of(
            task.workload,
            task.space,
            task.space.default,
            seconds=baseline.seconds,
            default_seconds=baseline.seconds,
            source=self.measurer.source,
        )
        trials = [r for r in mine if not r.confirmed]
        if not any(r.point == task.space.default for r in trials):
            trials.insert(0, default)
            self.database.add([default])
        search = Search(
            task.space,
            self.measurer.target,
            self._model,
            [(r.point, r.ratio) for r in trials],
            batch=self.settings.batch,
            population=self.settings.population,
            seed=self.settings.seed,
            threads=self.settings.threads,
        )
        hints = self.hints.of(task.workload, task.space) if self.hints else []
        others = [r for r in known if r.function != task.workload.function]
        search.suggest(_distinct([*self._modelled(task), *hints, *others]))
        confirmed = [r.ratio for r in confirmations(mine) if r.ratio]
        return TaskState(
            task,
            prepared,
            baseline.seconds,
            search,
            ratios=[r.ratio for r in trials],
            unconfirmed=[r for r in mine[since:] if r.ratio and not r.confirmed],
            confirmed=min(confirmed, default=None),
        )

    def _modelled(self, task: Task) -> list[Record]:
        """Return what a model found faster than the default, best first; to be measured first."""
        if self.measurer.source == MODELLED:
            return []
        return _faster(self.database.of(task.workload, task.space, MODELLED))

    def _step(self, state: TaskState) -> None:
        """Measure one batch of one task."""
        left = self.session.budget - self.session.trials
        if self.settings.per_task is not None:
            left = min(left, self.settings.per_task - len(state.ratios))
        schedules = state.search.propose()[:left]
        if not schedules:
            state.exhausted = True
            return
        measured = self.measurer.measure(state.prepared, schedules, beat=state.best)
        pairs = [(s, m) for s, m in zip(schedules, measured, strict=True) if not m.machine_failed]
        self._idle = 0 if pairs else self._idle + 1
        if self._idle == PATIENCE:
            raise SparseError(
                "tuning",
                f"nothing can be measured: {measured[0].error}",
                todo="see that the machine that measures is reachable and idle",
            )
        records = [self._record(state, schedule, m) for schedule, m in pairs]
        self.database.add(records)
        state.unconfirmed += [r for r in records if r.ratio]
        state.ratios += [r.ratio for r in records]
        state.batches.append(min(r for r in state.ratios if r))
        state.search.learn([(s, r.ratio) for (s, _), r in zip(pairs, records, strict=True)])
        # What else runs on a machine only ever adds time.
        defaults = [m.default_seconds for _, m in pairs if m.default_seconds]
        state.default_seconds = min([state.default_seconds, *defaults])
        self.session.count(len(records))

    def _confirm(self, state: TaskState) -> None:
        """Measure the fastest schedules again, in many turns with the default."""
        if not state.unconfirmed or self.measurer.source == MODELLED:
            return  # a model says the same again
        known = self.database.of(state.task.workload, state.task.space)
        mine = [r for r in known if r.function == state.task.workload.function]
        most = self.settings.finalists
        groups = _faster(state.unconfirmed)[:most], _faster(confirmations(mine))[:most]
        points = _distinct(record for group in groups for record in group)
        found = [state.task.space.schedule(point) for point in points]
        schedules = [schedule for schedule in found if schedule is not None]
        measured = self.measurer.compare(state.prepared, schedules, self.settings.rounds)
        pairs = zip(schedules, measured, strict=True)
        records = [self._record(state, s, m, confirmed=True) for s, m in pairs if m.seconds]
        self.database.add(records)
        state.unconfirmed = []
        state.confirmed = min((r.ratio for r in records if r.ratio), default=1.0)

    def _record(
        self, state: TaskState, schedule: s_tir.Schedule, m: Measured, *, confirmed: bool = False
    ) -> Record:
        task = state.task
        return record_of(
            task.workload,
            task.space,
            task.space.point(schedule),
            seconds=m.seconds,
            default_seconds=m.default_seconds,
            source=self.measurer.source,
            confirmed=confirmed,
            error=m.error,
        )


def _faster(records: Iterable[Record]) -> list[Record]:
    """Return those of ``records`` that beat the default, best first."""
    faster = [r for r in records if r.ratio and r.ratio < 1.0]
    return sorted(faster, key=lambda r: r.ratio or 1.0)


def _distinct(records: Iterable[Record]) -> list[Point]:
    """Return the points of ``records``, each once."""
    return list(dict.fromkeys(r.point for r in records))
