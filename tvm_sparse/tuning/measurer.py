"""Build schedules in parallel and measure them in turn, each batch next to its task's default."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import tvm
from tvm import s_tir
from tvm.target import Target

from tvm_sparse.base.targets import device_name, threads_of
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.schedules.rule import first_schedule
from tvm_sparse.tuning import operands
from tvm_sparse.tuning.build import build, suffix_for
from tvm_sparse.tuning.measure import Timing, expect, measure
from tvm_sparse.tuning.pool import Closing, Outcome, WorkerPool
from tvm_sparse.tuning.record import MEASURED, Source
from tvm_sparse.tuning.tasks import Task
from tvm_sparse.tuning.workload import target_name

BUILD_SECONDS = {"cpu": 30.0, "cuda": 120.0}
RUN_SECONDS = 60.0
"""Limits for one build, by device, and for one measurement."""

EVERY = 6
"""Schedules that are measured between two measurements of the default."""


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

    @property
    def ratio(self) -> float | None:
        """Time relative to the default's."""
        if self.seconds is None or self.default_seconds is None:
            return None
        return self.seconds / self.default_seconds


class Measurer(Closing):
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

    source: Source = MEASURED

    def __init__(self, target: Target, directory: Path, builders: int | None = None) -> None:
        self.target, self.directory = target, directory
        self.device = device_name(target)
        self.timing = Timing()
        self.pool = WorkerPool(builders or os.cpu_count() or 1, BUILD_SECONDS[self.device])
        self._suffix = suffix_for(target)
        self._written = 0

    @staticmethod
    def build(module: tvm.IRModule, target: Target, path: str) -> str:
        """Build ``module`` and write it to ``path``, in a worker; return ``path``."""
        return build(module, target, path)

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
            The function or its default schedule does not build or run, or has other operands.
        """
        directory = self.directory / f"task{len(list(self.directory.iterdir()))}"
        outputs = [operands.spec(p) for p in list(task.func.params)[-task.outputs :]]
        arrays = operands.operands(task.func, task.fixed, task.outputs)
        # Functions do not check what they are given.
        _require(task, operands.misfit(task.func, arrays))
        operands.save(directory, arrays, outputs)
        (default, _) = first_schedule(task.func, self.target, (task.space.rule,)) or (None, "")
        if default is None:
            raise UnsupportedError(f"function '{task.name}'", "its rule has no default schedule")
        truth = task.space.module if self.device == "cpu" else default.mod
        built = self._build([truth, default.mod], directory)
        failed = next((b.error for b in built if b.error), None)
        _require(task, failed or self.expect(built[0].value, directory).error)
        return Prepared(directory, built[1].value)

    def baseline(self, prepared: Prepared) -> Measured:
        """Return the time of the default schedule (as both times)."""
        (outcome,) = self.run([prepared.default], prepared.directory)
        seconds = _seconds(outcome)
        return Measured(seconds, seconds, outcome.error)

    def measure(
        self, prepared: Prepared, schedules: Sequence[s_tir.Schedule], beat: float
    ) -> list[Measured]:
        """Return the times of ``schedules``, and of the default before, between and after them.

        What seems faster than ``beat`` times the default is measured twice, and its worse result
        counts: one disturbance of the default would make everything next to it look fast.
        """
        built = self._build([schedule.mod for schedule in schedules], prepared.directory)
        libraries = [b.value for b in built if b.error is None]
        first = self._turn(prepared, libraries)
        again = [lib for lib in libraries if (first[lib].ratio or beat) < beat]
        second = self._turn(prepared, again)
        final = {lib: max(first[lib], second.get(lib, first[lib]), key=_worse) for lib in libraries}
        _remove(libraries)
        return [Measured(error=b.error) if b.error else final[b.value] for b in built]

    def compare(
        self, prepared: Prepared, schedules: Sequence[s_tir.Schedule], rounds: int
    ) -> list[Measured]:
        """Return the times of ``schedules`` in turns with the default: medians of ``rounds``."""
        built = self._build([schedule.mod for schedule in schedules], prepared.directory)
        libraries = [b.value for b in built if b.error is None]
        turns = [self._turn(prepared, libraries) for _ in range(rounds)] if libraries else []
        _remove(libraries)
        return [
            Measured(error=b.error) if b.error else _median([turn[b.value] for turn in turns])
            for b in built
        ]

    def _turn(self, prepared: Prepared, libraries: Sequence[str]) -> dict[str, Measured]:
        """Run ``libraries`` once, the default after every few, and compare with its best time."""
        if not libraries:
            return {}
        order = [prepared.default]
        for start in range(0, len(libraries), EVERY):
            order += [*libraries[start : start + EVERY], prepared.default]
        outcomes = list(zip(order, self.run(order, prepared.directory), strict=True))
        defaults = [outcome for library, outcome in outcomes if library == prepared.default]
        times = [seconds for seconds in map(_seconds, defaults) if seconds]
        if not times:
            failed = Measured(error=defaults[0].error, machine_failed=True)
            return dict.fromkeys(libraries, failed)
        default = min(times)
        return {
            library: Measured(_seconds(outcome), default, outcome.error)
            for library, outcome in outcomes
            if library != prepared.default
        }

    def _build(self, modules: Sequence[tvm.IRModule], directory: Path) -> list[Outcome]:
        calls = []
        for module in modules:
            self._written += 1
            path = directory / f"library{self._written}{self._suffix}"
            calls.append((module, self.target, str(path)))
        return self.pool.map(self.build, calls)

    def close(self) -> None:
        """End all processes."""
        self.pool.close()


class LocalMeasurer(Measurer):
    """Runs on this machine, in a process of its own, one function at a time.

    Raises
    ------
    UnsupportedError
        ``target`` is a GPU and this machine has none.
    """

    def __init__(self, target: Target, directory: Path, builders: int | None = None) -> None:
        if not tvm.device(device_name(target)).exist:
            raise UnsupportedError(
                f"target {target_name(target)}",
                "this machine has no NVIDIA GPU (or no driver), so nothing can be measured",
                "a GPU of this architecture",
                "tune on a machine that has one, or through --tracker",
            )
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


def _require(task: Task, failed: str | None) -> None:
    """Raise if something ``failed``, which keeps ``task`` from being measured."""
    if failed is not None:
        raise UnsupportedError(f"function '{task.name}'", f"cannot be measured: {failed}")


def _seconds(outcome: Outcome) -> float | None:
    """Return the shortest repetition: what else runs on a machine only ever adds time."""
    return min(outcome.value) if outcome.value else None


def _worse(measured: Measured) -> float:
    return float("inf") if measured.ratio is None else measured.ratio


def _median(turns: list[Measured]) -> Measured:
    """Return the median ratio, as times."""
    valid = [turn for turn in turns if turn.ratio is not None]
    if not valid:
        return turns[0]
    default = median(turn.default_seconds or 0.0 for turn in valid)
    return Measured(default * median(turn.ratio or 1.0 for turn in valid), default)


def _remove(libraries: Sequence[str]) -> None:
    for library in libraries:
        Path(library).unlink(missing_ok=True)
