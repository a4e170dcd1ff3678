"""A tuning session with real processes that is killed in the middle loses nothing finished."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.kernels import host
from tests.tuning.networks import linear, tasks, weights
from tvm_sparse.tuning.database import Database
from tvm_sparse.tuning.measurer import LocalMeasurer
from tvm_sparse.tuning.tuner import Settings, Tuner

SESSION = """
import pathlib, sys
from tests.tuning.test_killed import tuned
place = pathlib.Path(sys.argv[1])
tuned(place / "records", place / "libraries", trials=1000)
"""


def tuned(records, libraries, trials):
    """Tune one layer with processes that build and measure."""
    libraries.mkdir()
    database = Database(records)
    settings = Settings(trials, batch=2, population=8, rounds=1, finalists=1)
    with LocalMeasurer(host(), libraries, builders=1) as measurer:
        session = Tuner(measurer, database, settings).run(
            tasks(lambda x: linear(x, weights(0), "a"), (24, 64))
        )
    return session, database


def lines(path):
    return path.read_bytes().splitlines() if path.exists() else []


def workers(parent):
    """Return the processes that ``parent`` has started, where the system tells."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # processes end while we look
            if stat.read_text().rpartition(")")[2].split()[1] == str(parent):
                found.append(stat.parent)
    return found


def wait_for(what, seconds=120.0):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def killed(tmp_path):
    """Return the records of a session that was killed, and the processes that it had."""
    path = tmp_path / "records" / "records.jsonl"
    process = subprocess.Popen([sys.executable, "-c", SESSION, str(tmp_path)])
    wait_for(lambda: len(lines(path)) >= 2 or process.poll() is not None)
    processes = workers(process.pid)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    return path, processes


@pytest.mark.slow
def test_a_killed_session_goes_on_with_all_that_it_measured(killed, tmp_path):
    path, processes = killed
    with path.open("ab") as file:
        file.write(lines(path)[-1][:60])  # what a kill in the middle of a write leaves
    before = [r.model_dump_json() for r in Database(path)]
    assert len(before) >= 2
    session, database = tuned(path, tmp_path / "others", len(before) + 3)
    after = [r.model_dump_json() for r in database]
    points = [r.point for r in database if not r.confirmed]
    assert set(before) <= set(after)
    assert len(points) == len(set(points)) == session.trials == len(before) + 3
    assert database.skipped == Database(path).skipped == 1
    wait_for(lambda: not any(process.exists() for process in processes))
