"""Propose schedules of one task: MetaSchedule's evolutionary search with a learned cost model."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

from tvm import s_tir
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Trace
from tvm.target import Target

from tvm_sparse.schedules.rule import ScheduleRule
from tvm_sparse.tuning.space import CATEGORICAL, Point, Space

INTRINSICS = "tvm.s_tir.tensor_intrin"
FAILED = 1e10
"""Time that stands for "does not run" in the cost model (MetaSchedule's value)."""

NO_LIMIT = 1 << 30


def cost_model(threads: int, warmup: int = 24) -> Any:
    """Return MetaSchedule's XGBoost model; it guesses until it has seen ``warmup`` trials."""
    return ms.cost_model.XGBModel(num_warmup_samples=warmup, num_tuning_cores=threads)


class Search:
    """The search in one task's space.

    Parameters
    ----------
    space
        What may be decided.
    target
        The target.
    model
        A cost model, shared by the tasks of a session.
    known
        Points that were measured before, with their time relative to the default's (``None``:
        they failed).
    batch
        Points to propose at a time.
    population
        Schedules that evolve at a time, for four generations.
    seed
        Of the random decisions; positive.
    threads
        Threads of the search itself.
    """

    def __init__(
        self,
        space: Space,
        target: Target,
        model: Any,
        known: Iterable[tuple[Point, float | None]] = (),
        *,
        batch: int = 16,
        population: int = 64,
        seed: int = 1,
        threads: int = 1,
    ) -> None:
        self.space, self.target, self.model = space, target, model
        self.batch = batch
        self._seen: set[Point] = set()
        self._suggested: list[s_tir.Schedule] = []
        self._database = ms.database.MemoryDatabase()
        self._workload = self._database.commit_workload(space.module)
        with _without_intrinsics():
            self._context = ms.TuneContext(
                mod=space.module,
                target=target,
                space_generator=_generator(space, random.Random(seed)),
                search_strategy=ms.search_strategy.EvolutionarySearch(
                    population_size=population, init_min_unmeasured=1, genetic_num_iters=3
                ),
                task_name="task",
                rand_state=seed,
                num_threads=threads,
            )
        spaces = list(space.variants)
        self._context.pre_tuning(NO_LIMIT, batch, spaces, self._database, model)
        self._info = ms.arg_info.ArgInfo.from_entry_func(space.module, remove_preproc=True)
        found = [(space.schedule(point), time) for point, time in known]
        self.learn([(schedule, time) for schedule, time in found if schedule is not None])

    def suggest(self, points: Iterable[Point]) -> None:
        """Propose ``points`` first: what was good for a function like this one."""
        new = (self.space.schedule(p) for p in points if p not in self._seen)
        self._suggested += [schedule for schedule in new if schedule is not None]

    def propose(self) -> list[s_tir.Schedule]:
        """Return schedules that were not measured yet; none when the space seems exhausted."""
        if self._suggested:
            suggested, self._suggested = self._suggested[: self.batch], []
            return suggested
        for _ in range(3):
            candidates = self._context.generate_measure_candidates()
            if not candidates:
                return []
            self._context.notify_runner_results(
                list(candidates), [_result(None) for _ in candidates]
            )
            schedules = {self.space.point(c.sch): c.sch for c in candidates}
            new = [s for point, s in schedules.items() if point not in self._seen]
            if new:
                return new
        return []

    def learn(self, measured: list[tuple[s_tir.Schedule, float | None]]) -> None:
        """Take schedules' times relative to the default (``None``: it failed) into the search."""
        if not measured:
            return
        self._seen.update(self.space.point(schedule) for schedule, _ in measured)
        results = [_result(time) for _, time in measured]
        candidates = [ms.MeasureCandidate(schedule, self._info) for schedule, _ in measured]
        self.model.update(self._context, candidates, results)
        for schedule, time in measured:
            if time is not None:
                record = ms.database.TuningRecord(
                    schedule.trace, self._workload, [time], self.target, self._info
                )
                self._database.commit_tuning_record(record)


def _result(time: float | None) -> Any:
    return ms.runner.RunnerResult([FAILED if time is None else time], None)


def _generator(space: Space, rng: random.Random) -> Any:
    """Return the design space with what may happen to its decisions."""
    return ms.space_generator.ScheduleFn(
        lambda _: list(space.variants),
        sch_rules=[],
        postprocs=[Feasible(space.rule)],
        mutator_probs={ms.mutator.MutateTileSize(): 0.5, MutateCategorical(rng): 0.5},
    )


@derived_object
class Feasible(ms.postproc.PyPostproc):
    """Drops schedules that the rule does not think worth building."""

    def __init__(self, rule: ScheduleRule) -> None:
        super().__init__()
        self.rule = rule

    def _initialize_with_tune_context(self, context: Any) -> None:
        """Nothing depends on the context."""

    def apply(self, sch: s_tir.Schedule) -> bool:
        """Whether ``sch`` may be measured."""
        return self.rule.feasible(sch)

    def clone(self) -> Feasible:
        """Return another one."""
        return Feasible(self.rule)


@derived_object
class MutateCategorical(ms.mutator.PyMutator):
    """Takes another option of one categorical decision; MetaSchedule mutates only splits."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self.rng = rng

    def _initialize_with_tune_context(self, context: Any) -> None:
        """Nothing depends on the context."""

    def apply(self, trace: Trace, _: Any) -> Trace | None:
        """Return ``trace`` with one decision changed, ``None`` if it has none of this sort."""
        decisions = trace.decisions
        sampled = [i for i in trace.insts if i.kind.name == CATEGORICAL and i in decisions]
        if not sampled:
            return None
        instruction = self.rng.choice(sampled)
        count = len(instruction.attrs[0])
        step = self.rng.randrange(1, count)
        decision = (int(decisions[instruction]) + step) % count
        return trace.with_decision(instruction, decision, remove_postproc=True)

    def clone(self) -> MutateCategorical:
        """Return another one."""
        return MutateCategorical(self.rng)


@contextlib.contextmanager
def _without_intrinsics() -> Iterator[None]:
    """Spare the import of all tensor intrinsics, which takes half a minute, to ``TuneContext``."""
    if INTRINSICS in sys.modules:
        yield
        return
    sys.modules[INTRINSICS] = ModuleType(INTRINSICS)
    try:
        yield
    finally:
        del sys.modules[INTRINSICS]
