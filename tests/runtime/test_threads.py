import ctypes
import os

import pytest
import torch

import tvm_sparse as ts
from tests.runtime import fresh
from tvm_sparse.base.targets import threads_of
from tvm_sparse_runtime import threads
from tvm_sparse_runtime.errors import SparseRuntimeError


@pytest.fixture
def clean(monkeypatch):
    """Four cores, no variable set by the user, nothing chosen so far."""
    monkeypatch.setattr(threads.host, "physical_cores", lambda: 4)
    monkeypatch.setattr(threads._State, "ours", None)
    for name in ("TVM_NUM_THREADS", "TVM_BIND_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    yield
    os.unsetenv("TVM_NUM_THREADS")  # which may be set behind os.environ


@pytest.mark.parametrize(("recorded", "expected"), [(None, "4"), (2, "2"), (64, "4")])
def test_default(clean, recorded, expected):
    threads.choose(None, recorded)
    assert os.environ["TVM_NUM_THREADS"] == expected
    assert os.environ["TVM_BIND_THREADS"] == "0"


def test_the_users_variables_win(clean, monkeypatch):
    monkeypatch.setenv("TVM_NUM_THREADS", "3")
    monkeypatch.setenv("TVM_BIND_THREADS", "1")
    threads.choose(None, 2)
    assert (os.environ["TVM_NUM_THREADS"], os.environ["TVM_BIND_THREADS"]) == ("3", "1")


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


def of_the_libraries():
    """Return TVM_NUM_THREADS as TVM's runtime library reads it."""
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    return getenv(b"TVM_NUM_THREADS")


def test_a_number_that_nobody_set_is_settled_for_tvm(clean, monkeypatch):
    threads.settle()
    assert of_the_libraries() == b"4"
    assert "TVM_NUM_THREADS" not in os.environ
    monkeypatch.setenv("TVM_NUM_THREADS", "3")
    threads.settle()
    assert of_the_libraries() == b"3"


@pytest.mark.parametrize("name", ["TVM_NUM_THREADS", "OMP_NUM_THREADS"])
def test_the_users_number_stays(clean, monkeypatch, name):
    monkeypatch.setenv(name, "3")
    threads.settle()
    assert of_the_libraries() == (b"3" if name == "TVM_NUM_THREADS" else None)


def test_a_compiled_library_settles_it(clean):
    module, x = torch.nn.Linear(16, 16).eval(), torch.ones(2, 16)
    library = ts.compile(module, (x,), config=ts.Config(measure=False, tuned=False))
    before = threads_of(library.target)
    library(x)
    assert of_the_libraries() == b"4"
    assert threads_of(library.target) == before


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
    return engine.function("runtime.NumThreads")()
"""


def test_number_is_applied_to_a_pool_that_exists(linear_artifact):
    done = fresh.run(LOAD + "print(load(2), load(1), load(2), load())", linear_artifact)
    assert (done.stdout, done.stderr) == ("2 1 2 2\n", "")


def test_a_pool_cannot_grow(linear_artifact):
    done = fresh.run(
        LOAD + "load(1)\ntry: load(2)\nexcept rt.SparseRuntimeError as e: print(e)", linear_artifact
    )
    assert "this thread has a pool of 1 already" in done.stdout


FORK = (
    LOAD
    + """
library = rt.load(sys.argv[1], threads=int(sys.argv[2]))
if sys.argv[3] == "called": library(x)
child = os.fork()
if child == 0:
    try:
        library(x)
        print("ran", flush=True)
    except rt.SparseRuntimeError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""
)


@pytest.mark.parametrize(
    ("count", "before", "message"),
    [(2, "called", "forked from one"), (2, "untouched", "ran"), (1, "called", "ran")],
)
def test_forked_process(linear_artifact, count, before, message):
    """Without the check the first of these waits for ever for its parent's threads."""
    done = fresh.run(FORK, linear_artifact, count, before)
    assert message in done.stdout, done.stderr


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


CHILD_OF_A_POOL = (
    LOAD
    + """
load(2)
child = os.fork()
if child == 0:
    try:
        print(load(int(sys.argv[2])), flush=True)
    except rt.SparseRuntimeError as error:
        print(error, flush=True)
    sys.exit(0)
print(os.waitpid(child, 0)[1])
"""
)


@pytest.mark.parametrize(("count", "message"), [(1, "1\n0\n"), (2, "forked from one")])
def test_loading_in_a_child_that_lost_its_threads(linear_artifact, count, message):
    done = fresh.run(CHILD_OF_A_POOL, linear_artifact, count)
    assert message in done.stdout, done.stderr


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
