import os

import pytest
import torch

import tvm_sparse as ts
from tests.runtime import fresh
from tvm_sparse_runtime import engine, threads
from tvm_sparse_runtime.errors import SparseRuntimeError


@pytest.fixture
def clean(monkeypatch):
    """Four cores, no variable set by the user, nothing chosen so far."""
    monkeypatch.setattr(threads.host, "physical_cores", lambda: 4)
    monkeypatch.setattr(threads._State, "ours", None)
    for name in ("TVM_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


@pytest.mark.parametrize(("recorded", "expected"), [(None, "4"), (2, "2"), (64, "4")])
def test_default(clean, recorded, expected):
    threads.choose(None, recorded)
    assert os.environ["TVM_NUM_THREADS"] == expected


def test_the_users_variables_win(clean, monkeypatch):
    monkeypatch.setenv("TVM_NUM_THREADS", "3")
    threads.choose(None, 2)
    assert os.environ["TVM_NUM_THREADS"] == "3"


def test_our_own_choice_is_not_the_users(clean):
    threads.choose(None, 1)
    threads.choose(None, 2)
    assert os.environ["TVM_NUM_THREADS"] == "2"


@pytest.mark.parametrize("text", ["abc", "0", "-1", "4x", " 2", "1e9", "99999", "9" * 99, "\u0663"])
def test_a_variable_that_is_no_number(clean, monkeypatch, text):
    monkeypatch.setenv("TVM_NUM_THREADS", text)
    with pytest.raises(SparseRuntimeError, match=r"TVM_NUM_THREADS: .*; expected a number of thr"):
        threads.choose(None, 2)
    with pytest.raises(SparseRuntimeError, match="TVM_NUM_THREADS"):
        ts.compile(torch.nn.Linear(4, 4).eval(), (torch.randn(1, 4),))


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, None),
        ({"OMP_NUM_THREADS": "3"}, 3),
        ({"OMP_NUM_THREADS": "3", "TVM_NUM_THREADS": "5"}, 5),
        ({"TVM_NUM_THREADS": "x"}, None),
    ],
)
def test_the_number_of_the_process(clean, monkeypatch, variables, expected):
    """What our library reads at each call: no more than the variables, else the cores."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    threads.enter(None)
    cores = len(os.sched_getaffinity(0))
    found = engine.function("tvm_sparse.threads_used")()
    assert found == expected if expected else 1 <= found <= cores


@pytest.mark.parametrize("wish", [0, -1])
def test_nonsense(clean, wish):
    with pytest.raises(SparseRuntimeError, match="1 to 4096"):
        threads.choose(wish, None)


LOAD = """
import os, sys
import numpy as np
import tvm_sparse_runtime as rt
from tvm_sparse_runtime import engine
x = np.ones((8, 64), "float32")
def load(threads=None):
    library = rt.load(sys.argv[1], threads=threads)
    library(x)
    return engine.function("tvm_sparse.threads_used")()
"""


def test_each_library_has_a_number_of_its_own(linear_artifact):
    done = fresh.run(
        LOAD + "print(load(2), load(1), load(3), load())", linear_artifact, TVM_NUM_THREADS="5"
    )
    assert (done.stdout, done.stderr) == ("2 1 3 5\n", "")


FORK = (
    LOAD
    + """
library = rt.load(sys.argv[1], threads=int(sys.argv[2]))
if sys.argv[3] == "called": library(x)
child = os.fork()
if child == 0:
    print("ran", library(x)[1].shape, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""
)


@pytest.mark.grid
@pytest.mark.parametrize(("count", "before"), [(2, "called"), (2, "untouched"), (1, "called")])
def test_forked_process(linear_artifact, count, before):
    """A child has none of its parent's threads, which it must not wait for."""
    done = fresh.run(FORK, linear_artifact, count, before)
    assert done.stdout == "ran (8, 32)\n", done.stderr


BUSY_FORK = """
import os, sys, threading
import numpy as np
import tvm_sparse_runtime as rt
library = rt.load(sys.argv[1], threads=1)
x = np.ones((4000, 64), "float32")
expected, stop = library(x)[1], threading.Event()
def work():
    while not stop.is_set(): library(x)
workers = [threading.Thread(target=work) for _ in range(2)]
for worker in workers: worker.start()
for _ in range(12):
    child = os.fork()
    if child == 0:
        os._exit(0 if (library(x)[1] == expected).all() else 1)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
for worker in workers: worker.join()
print("all ran")
"""


def test_fork_while_other_threads_are_inside_a_call(linear_artifact):
    """A child that inherited a taken lock would wait for ever."""
    done = fresh.run(BUSY_FORK, linear_artifact)
    assert done.stdout == "all ran\n", done.stderr


def test_a_signal_handler_may_fork_and_call(linear_artifact):
    code = """
import os, signal, sys
import numpy as np
import tvm_sparse_runtime as rt
library, x = rt.load(sys.argv[1], threads=1), np.ones((4000, 64), "float32")
forks = []
def handler(*_):
    child = os.fork()
    if child == 0: os._exit(library(x)[1].shape != (4000, 32))
    forks.append(os.waitpid(child, 0)[1])
    signal.setitimer(signal.ITIMER_REAL, 0.002)
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.002)
while len(forks) < 10: library(x)
signal.setitimer(signal.ITIMER_REAL, 0)
print(set(forks))
"""
    done = fresh.run(code, linear_artifact)
    assert done.stdout == "{0}\n", done.stderr
