"""Workers: values, errors, crashes and limits, without torch and without survivors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tvm_sparse.tuning.pool import WorkerPool
from tvm_sparse.tuning.worker import READY, serve

SEEN = "sorted({'tvm', 'torch'} & {k for k, v in __import__('sys').modules.items() if v})"


@pytest.fixture(scope="module")
def pool():
    with WorkerPool(1, timeout=20, environment={"TVM_TEST_VARIABLE": "set"}) as pool:
        yield pool


def one(pool, function, *arguments):
    (outcome,) = pool.map(function, [arguments])
    return outcome


def test_values_come_back_in_order(pool):
    assert [o.value for o in pool.map(divmod, [(7, 2), (9, 4)])] == [(3, 1), (2, 1)]


def test_an_exception_is_an_error_and_the_worker_lives(pool):
    process = one(pool, os.getpid).value
    assert one(pool, divmod, 1, 0).error.startswith("ZeroDivisionError")
    assert one(pool, os.getpid).value == process


def test_workers_know_tvm_but_not_torch(pool):
    assert one(pool, eval, SEEN).value == ["tvm"]


def test_the_environment_is_the_worker_s(pool):
    assert one(pool, os.getenv, "TVM_TEST_VARIABLE").value == "set"


def test_a_crash_is_an_error_and_the_next_call_works(pool):
    assert "signal 11" in one(pool, signal.raise_signal, signal.SIGSEGV).error
    assert one(pool, divmod, 5, 3).value == (1, 2)


def test_a_call_that_hangs_is_stopped(pool):
    pool.timeout, before = 0.3, time.monotonic()
    try:
        assert "no answer after 0.3 s" in one(pool, time.sleep, 60).error
    finally:
        pool.timeout = 20
    assert time.monotonic() - before < 20


def test_printing_does_not_disturb(pool):
    assert one(pool, print, "hello").error is None


@pytest.mark.grid
@pytest.mark.parametrize("limit", [{"max_uses": 1}, {"max_memory": 1}])
def test_a_worker_at_its_limit_is_replaced(limit):
    with WorkerPool(1, timeout=20, **limit) as pool:
        pids = {o.value for _ in range(2) for o in pool.map(os.getpid, [()])}
        assert len(pids) == pool.starts == 2


def test_memory_of_the_parent_is_not_the_worker_s():
    limit = 700 << 20
    mine = np.ones(limit, np.uint8)
    with WorkerPool(1, timeout=20, max_memory=limit) as pool:
        pids = {o.value for _ in range(2) for o in pool.map(os.getpid, [()])}
        assert len(pids) == pool.starts == mine[0]


def test_workers_end_with_their_parent(tmp_path):
    note = tmp_path / "pid"
    code = f"""
import os, time
from pathlib import Path
from tvm_sparse.tuning.pool import WorkerPool
pool = WorkerPool(1, timeout=20)
Path({str(note)!r}).write_text(str(pool.map(os.getpid, [()])[0].value))
time.sleep(60)
"""
    parent = subprocess.Popen([sys.executable, "-c", code])
    while not note.exists() or not note.read_text():
        assert parent.poll() is None
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    for _ in range(100):
        if not Path(f"/proc/{note.read_text()}/cmdline").exists():
            return
        time.sleep(0.1)
    pytest.fail("the worker outlived its parent")


def test_serving_ends_when_the_other_end_closes():
    from multiprocessing import Pipe
    from threading import Thread

    ours, theirs = Pipe()
    server = Thread(target=serve, args=(theirs,))
    server.start()
    assert ours.recv() == READY
    ours.close()
    server.join(timeout=5)
    assert not server.is_alive()
