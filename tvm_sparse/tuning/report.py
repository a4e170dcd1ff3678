"""What a tuning session found, for programs and people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

from tvm_sparse.tuning.record import MEASURED, Source
from tvm_sparse.tuning.state import TaskState, TuningSession


@dataclass(frozen=True)
class TaskReport:
    """One task. Times are microseconds of one call; ``curve`` is the best after each trial.

    ``speedup`` is the default's time over the best's; one: the default stays. With ``instead_of``
    it is another format of its layers than the one that they have now.
    """

    name: str
    operator: str
    layers: tuple[str, ...]
    calls: int
    trials: int
    failed: int
    default_us: float
    best_us: float
    curve: tuple[float, ...] = field(repr=False)
    instead_of: str = ""

    @property
    def speedup(self) -> float:
        """Default time over best time."""
        return self.default_us / self.best_us


@dataclass(frozen=True)
class TuningReport:
    """A whole session: its tasks, slowest first; ``source`` says whether times are modelled."""

    tasks: tuple[TaskReport, ...]
    database: str
    trials: int
    seconds: float
    skipped: dict[str, str]
    broken_lines: int
    interrupted: bool = False
    source: Source = MEASURED

    def __iter__(self) -> Iterator[TaskReport]:
        return iter(self.tasks)

    @property
    def default_us(self) -> float:
        """Time of all calls of the model's own functions in one run, by default."""
        return sum(t.calls * t.default_us for t in self.tasks if not t.instead_of)

    @property
    def best_us(self) -> float:
        """The same with the best schedules."""
        return sum(t.calls * t.best_us for t in self.tasks if not t.instead_of)

    def to_json(self) -> dict[str, object]:
        """Return a plain dictionary."""
        own = {"default_us": self.default_us, "best_us": self.best_us}
        tasks = [{**asdict(t), "speedup": t.speedup} for t in self.tasks]
        return {**asdict(self), **own, "tasks": tasks}


def report_of(
    session: TuningSession,
    *,
    database: str,
    seconds: float,
    broken_lines: int,
    interrupted: bool,
    source: Source = MEASURED,
) -> TuningReport:
    """Return the report of ``session``."""
    return TuningReport(
        tasks=tuple(_task(state) for state in session.states),
        database=database,
        trials=session.trials,
        seconds=seconds,
        skipped=dict(session.skipped),
        broken_lines=broken_lines,
        interrupted=interrupted,
        source=source,
    )


def _task(state: TaskState) -> TaskReport:
    default = state.default_seconds * 1e6
    return TaskReport(
        name=state.task.name,
        operator=state.task.workload.operator,
        layers=state.task.layers,
        calls=state.task.calls,
        trials=len(state.ratios),
        failed=state.ratios.count(None),
        default_us=default,
        best_us=default * min(state.best, 1.0),
        curve=tuple(default * ratio for ratio in state.curve()),
        instead_of=state.task.instead_of,
    )
