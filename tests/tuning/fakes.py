"""A measurer without processes: the time of a schedule is a formula of its decisions."""

from __future__ import annotations

import time
from pathlib import Path

from tvm_sparse.tuning.measurer import Measured, Measurer, Prepared

DEFAULT_SECONDS = 1e-4


class FakeMeasurer(Measurer):
    """Times fall as the tile's rows come near to ``target_rows``; ``broken`` decisions fail."""

    def __init__(self, target, *, rows=8, broken=None, pause=0.0, fails=0):
        self.target, self.rows, self.broken, self.pause = target, rows, broken, pause
        self.fails = fails
        self.tasks, self.batches, self.measured = {}, [], []

    def expect(self, library, directory):
        raise NotImplementedError

    def run(self, libraries, directory):
        raise NotImplementedError

    def prepare(self, task):
        self.tasks[task.name] = task
        return Prepared(Path(), task.name)

    def baseline(self, prepared):
        return Measured(DEFAULT_SECONDS, DEFAULT_SECONDS)

    def measure(self, prepared, schedules, beat):
        time.sleep(self.pause)
        self.batches.append((prepared.default, len(schedules)))
        if self.fails:
            self.fails -= 1
            return [Measured(error="no machine", machine_failed=True) for _ in schedules]
        return [self._time(prepared, schedule) for schedule in schedules]

    def compare(self, prepared, schedules, rounds):
        return [self._time(prepared, schedule) for schedule in schedules]

    def _time(self, prepared, schedule):
        space = self.tasks[prepared.default].space
        values = space.point(schedule).values
        self.measured.append((prepared.default, values))
        if self.broken is not None and self.broken(values):
            return Measured(error="WrongResultError: differs")
        return Measured(self.ratio(values, space.default.values) * DEFAULT_SECONDS, DEFAULT_SECONDS)

    def ratio(self, values, default):
        """Return time relative to the default's, which is one for the default itself."""
        return (1 + abs(values[0] - self.rows)) / (1 + abs(default[0] - self.rows))

    def close(self):
        pass
