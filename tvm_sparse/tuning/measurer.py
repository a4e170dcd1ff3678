"""Build schedules in parallel and measure them in turn, each batch next to its task's default."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from types import TracebackType

import tvm
from tvm import s_tir
from tvm.target import Target

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.schedules.rule import first_schedule
from tvm_sparse.tuning import operands
from tvm_sparse.tuning.build import build, suffix_for
from tvm_sparse.tuning.measure import Timing, expect, measure
from tvm_sparse.tuning.pool import Outcome, WorkerPool
from tvm_sparse.tuning.tasks import Task
from tvm_sparse.tuning.workload import threads_of

BUILD_SECONDS = 30.0
RUN_SECONDS = 60.0
"""Limits for one build and for one measurement."""


@dataclass(frozen=True)
class Prepared:
    """A task that is ready to measure: where its arguments lie, and its default's library."""

    directory: Path
    default: str


@dataclass(frozen=True)
class Measured:
    """Seconds of one call of a schedule and of the default next to it, or why there are none.

    ``machine_failed``: the default did not run either, so the schedule is not to blame.
    """

    seconds: float | None = None
    default_seconds: float | None = None
    error: str | None = None
    machine_failed: bool = False


class Measurer(ABC):
    """Builds here; where to run is up to the subclass.

    Parameters
    ----------
    target
        What to build for.
    directory
        An existing directory for libraries and arguments.
    builders
        Processes that build; one for each core if not given.
    """

    def __init__(self, target: Target, directory: Path, builders: int | None = None) -> None:
        self.target, self.directory = target, directory
        self.device = "cpu" if target.kind.name == "llvm" else target.kind.name
        self.timing = Timing()
        self.pool = WorkerPool(builders or os.cpu_count() or 1, BUILD_SECONDS)
        self._suffix = suffix_for(target)
        self._written = 0

    @abstractmethod
    def expect(self, library: str, directory: Path) -> Outcome:
        """Run ``library`` once; what it computes becomes the truth for the arguments there."""

    @abstractmethod
    def run(self, libraries: Sequence[str], directory: Path) -> list[Outcome]:
        """Return the seconds of each library, a list for each, in order."""

    def prepare(self, task: Task) -> Prepared:
        """Make ``task`` ready to measure.

        What a schedule must compute is what the function says as it stands, built without any
        schedule. Functions for GPUs do not run so: there the default schedule is the truth.

        Raises
        ------
        UnsupportedError
            The function or its default schedule does not build or run.
        """
        directory = self.directory / f"task{len(list(self.directory.iterdir()))}"
        outputs = [operands.spec(p) for p in list(task.func.params)[-task.outputs :]]
        arrays = operands.operands(task.func, task.fixed, task.outputs)
        operands.save(directory, arrays, outputs)
        (default, _) = first_schedule(task.func, self.target, (task.space.rule,)) or (None, "")
        if default is None:
            raise UnsupportedError(f"function '{task.name}'", "its rule has no default schedule")
        truth = task.space.module if self.device == "cpu" else default.mod
        built = self._build([truth, default.mod], directory)
        failed = next((b.error for b in built if b.error), None)
        failed = failed or self.expect(built[0].value, directory).error
        if failed is not None:
            raise UnsupportedError(f"function '{task.name}'", f"cannot be measured: {failed}")
        return Prepared(directory, built[1].value)

    def baseline(self, prepared: Prepared) -> Measured:
        """Return the time of the default schedule (as both times)."""
        (outcome,) = self.run([prepared.default], prepared.directory)
        seconds = _seconds(outcome)
        return Measured(seconds, seconds, outcome.error)

    def measure(
        self, prepared: Prepared, schedules: Sequence[s_tir.Schedule], rounds: int = 1
    ) -> list[Measured]:
        """Return the times of ``schedules``; with several ``rounds``, of their median ratio."""
        built = self._build([schedule.mod for schedule in schedules], prepared.directory)
        libraries = [b.value for b in built if b.error is None]
        turns = [
            self.run([prepared.default, *libraries], prepared.directory) for _ in range(rounds)
        ]
        for library in libraries:
            Path(library).unlink(missing_ok=True)
        times = iter(range(1, len(libraries) + 1))
        return [Measured(error=b.error) if b.error else _combine(turns, next(times)) for b in built]

    def _build(self, modules: Sequence[tvm.IRModule], directory: Path) -> list[Outcome]:
        calls = []
        for module in modules:
            self._written += 1
            path = directory / f"library{self._written}{self._suffix}"
            calls.append((module, self.target, str(path)))
        return self.pool.map(build, calls)

    def close(self) -> None:
        """End all processes."""
        self.pool.close()

    def __enter__(self) -> Measurer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class LocalMeasurer(Measurer):
    """Runs on this machine, in a process of its own, one function at a time."""

    def __init__(self, target: Target, directory: Path, builders: int | None = None) -> None:
        super().__init__(target, directory, builders)
        threads = {"TVM_NUM_THREADS": str(threads_of(target)), "TVM_BIND_THREADS": "0"}
        self.runner = WorkerPool(1, RUN_SECONDS, environment=threads)

    def expect(self, library: str, directory: Path) -> Outcome:
        """Run ``library`` once; what it computes becomes the truth for the arguments there."""
        return self.runner.map(expect, [(library, str(directory), self.device)])[0]

    def run(self, libraries: Sequence[str], directory: Path) -> list[Outcome]:
        """Return the seconds of each library, a list for each, in order."""
        place = (str(directory), self.device, self.timing)
        return self.runner.map(measure, [(library, *place) for library in libraries])

    def close(self) -> None:
        """End all processes."""
        super().close()
        self.runner.close()


def _seconds(outcome: Outcome) -> float | None:
    """Return the shortest repetition: what else runs on a machine only ever adds time."""
    return min(outcome.value) if outcome.value else None


def _combine(turns: list[list[Outcome]], position: int) -> Measured:
    """Return the times of the library at ``position``; the default is at the first."""
    defaults = [_seconds(turn[0]) for turn in turns]
    if not any(defaults):
        return Measured(error=turns[0][0].error, machine_failed=True)
    own = [_seconds(turn[position]) for turn in turns]
    pairs = [(d, o) for d, o in zip(defaults, own, strict=True) if d and o]
    if not pairs:
        return Measured(error=next(t[position].error for t in turns))
    default = median(d for d, _ in pairs)
    return Measured(default * median(o / d for d, o in pairs), default)
