"""Measuring through TVM's RPC tracker: real servers on loopback, one of which dies."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.kernels import host
from tests.tuning.networks import mlp, tasks
from tvm_sparse.errors import InputError
from tvm_sparse.tuning import remote
from tvm_sparse.tuning.database import Database
from tvm_sparse.tuning.remote import RemoteMeasurer, Tracker, parse_tracker
from tvm_sparse.tuning.tuner import Settings, Tuner

KEY = "loopback"


def test_addresses():
    assert parse_tracker("10.0.0.5:9190", "k") == Tracker("10.0.0.5", 9190, "k")
    for address, key in (("10.0.0.5", "k"), ("host:port", "k"), ("10.0.0.5:9190", None)):
        with pytest.raises(InputError):
            parse_tracker(address, key)


def test_a_tracker_that_does_not_answer(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    with pytest.raises(InputError, match="does not answer"):
        RemoteMeasurer(host(), tmp_path, Tracker("127.0.0.1", port, KEY))


def test_what_we_tell_to_start_listens_on_one_address_only():
    """TVM's own default is every network of the machine."""
    root = Path(remote.__file__).parents[2]
    texts = [(root / "docs/tuning.md").read_text(), Path(remote.__file__).read_text()]
    commands = re.findall(r"python -m tvm\.exec\.rpc_.*", "\n".join(texts))
    assert len(commands) == 3
    for command in commands:
        assert re.search(r"--host (?!0\.0\.0\.0)\S", command), command


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(what, seconds=120):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.2)


class Loopback:
    """A tracker and servers as a user starts them, each a process with its children."""

    def __init__(self):
        self.port, self.processes = free_port(), {}
        self.start(
            "tracker", "tvm.exec.rpc_tracker", "--port", self.port, "--port-end", self.port + 1
        )
        wait_for(self.answers)

    def start(self, name, module, *options):
        command = [sys.executable, "-m", module, "--host", "127.0.0.1", *map(str, options)]
        self.processes[name] = subprocess.Popen(
            command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def serve(self, name):
        port = free_port()
        tracker = f"127.0.0.1:{self.port}"
        options = ("--tracker", tracker, "--key", KEY, "--port", port, "--port-end", port + 1)
        before = self.servers()
        self.start(name, "tvm.exec.rpc_server", *options)
        wait_for(lambda: self.servers() > before)

    def answers(self):
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), 1).close()
            return True
        return False

    def servers(self):
        query = [sys.executable, "-m", "tvm.exec.query_rpc_tracker", "--host", "127.0.0.1"]
        done = subprocess.run(
            [*query, "--port", str(self.port)], capture_output=True, text=True, check=True
        )
        return len(re.findall(f"server:{KEY}", done.stdout))

    def kill(self, name):
        process = self.processes.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def close(self):
        for name in list(self.processes):
            self.kill(name)


@pytest.fixture
def loopback():
    machines = Loopback()
    try:
        machines.serve("first")
        machines.serve("second")
        yield machines
    finally:
        machines.close()


@pytest.mark.slow
def test_a_server_that_dies_costs_nothing(loopback, tmp_path):
    tracker = Tracker("127.0.0.1", loopback.port, KEY)
    database, killed = Database(tmp_path / "records"), []

    def progress(session):
        if session.trials > 8 and not killed:
            loopback.kill("first")
            killed.append(session.trials)

    (tmp_path / "work").mkdir()
    with RemoteMeasurer(host(), tmp_path / "work", tracker, builders=1) as measurer:
        settings = Settings(trials=24, batch=6, population=12, rounds=2, finalists=1)
        session = Tuner(measurer, database, settings, progress).run(tasks(*mlp()))
    assert killed
    assert session.trials == 24
    trials = [r for r in database if not r.confirmed]
    assert len(trials) == 24
    assert [r.error for r in trials if r.error] == []


@pytest.mark.slow
def test_wrong_results_are_seen_from_afar(loopback, tmp_path):
    from tests.tuning.test_measurer import other, wrong

    (task, _) = tasks(*mlp())
    tracker = Tracker("127.0.0.1", loopback.port, KEY)
    with RemoteMeasurer(host(), tmp_path, tracker, builders=1) as measurer:
        prepared = measurer.prepare(task)
        good, bad = measurer.measure(prepared, [other(task), wrong(task)], beat=1.0)
    assert good.ratio > 0
    assert "WrongResult" in bad.error
