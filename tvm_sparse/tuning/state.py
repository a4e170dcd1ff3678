"""Where a tuning session stands: its tasks, what each has found, how fast it goes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from tvm_sparse.tuning.history import best_so_far
from tvm_sparse.tuning.measurer import Prepared
from tvm_sparse.tuning.record import Record
from tvm_sparse.tuning.search import Search
from tvm_sparse.tuning.tasks import Task

RATE_WINDOW = 20
"""Batches that the rate of trials is an average of."""


@dataclass
class TaskState:
    """One task's progress. Times are seconds of one call of the function.

    ``ratios`` are those of all trials in order (``None``: it failed), the default's first;
    ``batches`` the best ratio after each batch of this session.
    """

    task: Task
    prepared: Prepared
    default_seconds: float
    search: Search
    ratios: list[float | None] = field(default_factory=list)
    batches: list[float] = field(default_factory=list)
    unconfirmed: list[Record] = field(default_factory=list)
    confirmed: float | None = None
    exhausted: bool = False

    @property
    def best(self) -> float:
        """Best ratio to the default so far: the confirmed one at last."""
        if self.confirmed is not None:
            return self.confirmed
        return min((r for r in self.ratios if r), default=1.0)

    @property
    def seconds(self) -> float:
        """Seconds that one run of the model spends here with the default schedule."""
        return self.task.calls * self.default_seconds

    def curve(self) -> list[float]:
        """Return the best ratio after each trial."""
        return best_so_far(self.ratios)


@dataclass
class TuningSession:
    """All tasks of one run of the tuner; ``skipped`` has the reasons of those that have none."""

    budget: int
    states: list[TaskState] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    phase: str = "preparing"
    current: str = ""
    trials: int = 0
    started: float = field(default_factory=time.monotonic)
    marks: list[tuple[float, int]] = field(default_factory=list)

    def count(self, trials: int) -> None:
        """Note that ``trials`` more are done."""
        if not self.marks:
            self.marks.append((self.started, self.trials))
        self.trials += trials
        self.marks = [*self.marks[-RATE_WINDOW:], (time.monotonic(), self.trials)]

    @property
    def rate(self) -> float:
        """Trials a minute, lately."""
        if len(self.marks) < 2:
            return 0.0
        (begin, first), (end, last) = self.marks[0], self.marks[-1]
        return 60 * (last - first) / max(end - begin, 1e-9)

    @property
    def seconds_left(self) -> float | None:
        """Estimate for the trials that are left; ``None`` before there is one."""
        return 60 * (self.budget - self.trials) / self.rate if self.rate else None
