"""The tuning loop: default first, never slower, resumable, fair to tasks, honest about failures."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from tests.kernels import host
from tests.tuning.fakes import FakeMeasurer
from tests.tuning.networks import mlp, tasks
from tvm_sparse.errors import SparseError
from tvm_sparse.tuning.database import Database
from tvm_sparse.tuning.interrupt import Stop
from tvm_sparse.tuning.tuner import Settings, Tuner


@pytest.fixture(scope="module")
def network():
    return tasks(*mlp(rows=24))


def tuned(network, path, trials=40, measurer=None, notify=lambda s: None, stop=None, **settings):
    database = Database(path)
    settings = Settings(trials=trials, **{"batch": 8, "population": 12, **settings})
    tuner = Tuner(measurer or FakeMeasurer(host()), database, settings, notify, stop)
    return tuner.run(network), database


@pytest.fixture(scope="module")
def finished(network, tmp_path_factory):
    """A session of forty trials, and the folder of its records, which nobody writes to."""
    folder = tmp_path_factory.mktemp("finished")
    return tuned(network, folder)[0], folder


@pytest.fixture
def copied(finished, tmp_path):
    """A folder with the records of the session."""
    return shutil.copytree(finished[1], tmp_path / "copied")


def test_the_default_is_the_first_trial(network, tmp_path):
    session, database = tuned(network, tmp_path, trials=len(network))
    assert [r.ratio for r in database] == [1.0] * len(network)
    assert all(
        r.point == s.task.space.default for r, s in zip(database, session.states, strict=True)
    )
    assert all(database.best(s.task.workload, s.task.space) is None for s in session.states)


def test_faster_schedules_are_found_and_confirmed(finished):
    session, database = finished[0], Database(finished[1])
    for state in session.states:
        best = database.best(state.task.workload, state.task.space)
        assert best.confirmed
        assert best.values[0] == 8
        assert state.best == pytest.approx(best.ratio)
    assert session.trials == 40


def test_hints_are_tried_first(network, finished, tmp_path):
    known = Database(finished[1])
    settings = Settings(trials=2 * len(network), per_task=2, batch=1, population=12)
    own = Database(tmp_path / "own")
    session = Tuner(FakeMeasurer(host()), own, settings, hints=known).run(network)
    for state in session.states:
        task = state.task
        points = [r.point for r in known.of(task.workload, task.space)]
        mine = [
            r for r in own.of(task.workload, task.space) if r.function == task.workload.function
        ]
        assert [r.point in points for r in mine if not r.confirmed] == [True, True]


def test_no_schedule_is_measured_twice(network, tmp_path):
    measurer = FakeMeasurer(host())
    session, database = tuned(network, tmp_path, 40, measurer)
    tried = [(r.function, r.values) for r in database if not r.confirmed]
    assert len(tried) == len(set(tried)) == session.trials


def test_a_session_goes_on_where_another_ended(network, tmp_path):
    tuned(network, tmp_path, trials=24)
    measurer = FakeMeasurer(host())
    session, database = tuned(network, tmp_path, 40, measurer)
    tried = [(r.function, r.values) for r in database if not r.confirmed]
    assert len(tried) == len(set(tried)) == session.trials == 40
    assert sum(count for _, count in measurer.batches) == 16


def test_a_finished_session_measures_nothing_more(network, copied):
    measurer = FakeMeasurer(host())
    tuned(network, copied, 40, measurer)
    assert measurer.measured == []


def test_the_best_can_be_confirmed_again(network, copied):
    measurer = FakeMeasurer(host())
    session, database = tuned(network, copied, 40, measurer, reconfirm=True)
    assert {name for name, _ in measurer.measured} == {task.name for task in network}
    assert session.trials == 40
    assert all(database.best(t.workload, t.space).values[0] == 8 for t in network)


def test_a_default_that_is_best_stays(network, tmp_path):
    measurer = FakeMeasurer(host(), rows=network[0].space.default.values[0])
    session, database = tuned(network, tmp_path, 40, measurer)
    assert all(state.best == 1.0 for state in session.states)
    assert all(database.best(t.workload, t.space) is None for t in network)


def test_wrong_schedules_are_recorded_but_never_chosen(network, tmp_path):
    measurer = FakeMeasurer(host(), broken=lambda values: values[0] == 8)
    session, database = tuned(network, tmp_path, 60, measurer)
    failed = [r for r in database if r.error]
    assert failed
    assert all(r.values[0] == 8 and r.ratio is None for r in failed)
    assert all(database.best(t.workload, t.space).values[0] != 8 for t in network)
    assert sum(s.ratios.count(None) for s in session.states) == len(failed)


def test_a_machine_that_fails_for_a_moment_costs_no_schedule(network, tmp_path):
    measurer = FakeMeasurer(host(), fails=2)
    session, database = tuned(network, tmp_path, 40, measurer)
    assert not any(r.error for r in database)
    assert session.trials == 40


def test_a_machine_that_is_gone_is_an_error(network, tmp_path):
    with pytest.raises(SparseError, match="nothing can be measured: no machine"):
        tuned(network, tmp_path, 40, FakeMeasurer(host(), fails=99))


def test_limits(network, tmp_path):
    session, _ = tuned(network, tmp_path / "a", 100, per_task=12)
    assert [len(s.ratios) for s in session.states] == [12, 12]
    assert session.trials == session.budget == 24
    session, _ = tuned(network, tmp_path / "b", 100, per_task=12, slowest=1)
    assert [s.task.calls for s in session.states] == [2]


def test_the_slowest_are_known_from_the_database(network, tmp_path):
    tuned(network, tmp_path, len(network))
    measurer = FakeMeasurer(host())
    session, _ = tuned(network, tmp_path, 8, measurer, slowest=1)
    assert list(measurer.tasks) == [session.states[0].task.name]
    assert session.states[0].task.calls == 2


def test_a_stop_ends_after_the_step(network, tmp_path):
    stop = Stop()

    def notify(session):
        stop.asked = stop.asked or session.trials > 16

    session, database = tuned(network, tmp_path, 100, notify=notify, stop=stop)
    assert 16 < session.trials <= 32
    assert len(database) == session.trials


def test_what_another_epilogue_found_is_tried_first(network, tmp_path):
    tuned(network[:1], tmp_path)
    measurer = FakeMeasurer(host())
    tuned(network[1:], tmp_path, 8, measurer)
    assert 8 in {values[0] for _, values in measurer.measured[:8]}


SESSION = """
import sys
from tests.tuning.test_tuner import *
tuned(tasks(*mlp(rows=24)), sys.argv[1], 400, FakeMeasurer(host(), pause=0.1))
"""


def test_a_killed_session_loses_nothing(network, tmp_path):
    path = tmp_path / "records.jsonl"
    process = subprocess.Popen([sys.executable, "-c", SESSION, str(tmp_path)])
    while not path.exists() or len(path.read_bytes().splitlines()) < 18:
        assert process.poll() is None
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with path.open("ab") as file:
        file.write(b'{"torn": ')
    before = [r.model_dump_json() for r in Database(tmp_path)]
    assert len(before) >= 18
    session, database = tuned(network, tmp_path, len(before) + 8)
    after = [r.model_dump_json() for r in database]
    assert set(before) <= set(after)
    assert session.trials == len(before) + 8
    assert database.skipped == 1
