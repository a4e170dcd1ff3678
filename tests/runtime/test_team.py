"""Teams: the parallel loops of a call, on threads that stay together from the first to the last."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import tvm_ffi
from tvm.support import cc

from tests.runtime import fresh

BEGIN = """
import ctypes, sys, threading
from tvm_sparse_runtime import engine

class Counts(ctypes.Structure):
    _fields_ = (("failing", ctypes.c_int64), ("in_teams", ctypes.c_int64),
                ("runs", ctypes.c_int64 * 16))

loops = engine.open_library(sys.argv[1])["loops"]

def run(function, loops=5, tasks=0, failing=-1, us=100):
    counts = Counts(failing)
    try:
        function(loops, tasks, us, ctypes.addressof(counts))
        error = None
    except Exception as found:
        error = found
    runs = list(counts.runs)
    while runs and not runs[-1]:
        runs.pop()
    return runs, counts.in_teams, error
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Build the library."""
    built = tmp_path_factory.mktemp("loops") / "loops.so"
    source = Path(__file__).with_name("loops.cc")
    include = f"-I{tvm_ffi.libinfo.find_include_path()}"
    command = [cc.get_cc(), "-shared", "-fPIC", "-O1", include, source, "-o", built]
    subprocess.run(command, check=True)
    return built


def said(code, library, threads):
    # Without a list of processors TVM takes no more threads than there are.
    spread = f"-3, {threads}, ['0'] * {threads}"
    begin = f"{BEGIN}\nengine.function('runtime.config_threadpool')({spread})\n"
    done = fresh.run(begin + code, library, TVM_NUM_THREADS=str(threads), TVM_BIND_THREADS="0")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_a_second_call_of_several_loops_has_a_team(library, threads):
    code = "f = engine.together(loops)\nfor _ in range(3): print(run(f))"
    runs = [5] * threads
    team = f"({runs}, {5 * threads}, None)"
    assert said(code, library, threads) == [f"({runs}, 0, None)", team, team]


def test_a_single_loop_does_without(library):
    code = "f = engine.together(loops)\nfor n in (1, 1, 4, 4, 1, 1): print(run(f, n)[1])"
    assert said(code, library, 2) == ["0", "0", "0", "8", "2", "0"]


def test_short_calls_do_without_other_threads(library):
    # A call may meet another program, so many are made: the shortest count.
    code = """
f = engine.together(loops)
def threads(loops, us, calls): return [len(run(f, loops, us=us)[0]) for _ in range(calls)]
for n in (2, 1):
    print(min(threads(n, 0, 300)), threads(n, 100, 3)[-1])
print(min(threads(2, 0, 300)))
"""
    assert said(code, library, 2) == ["1 2", "1 2", "1"]


@pytest.mark.parametrize("tasks", [1, 2, 7, 16])
def test_tasks_may_be_more_or_fewer_than_threads(library, tasks):
    code = f"f = engine.together(loops)\nrun(f)\nprint(run(f, tasks={tasks}))"
    assert said(code, library, 3) == [f"({[5] * tasks}, {5 * tasks}, None)"]


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_an_error_ends_the_call_and_no_more(library, failing):
    code = f"f = engine.together(loops)\nrun(f)\nprint(run(f, failing={failing}), run(f))"
    failed = "([1, 1, 1], 3, ValueError('a task that fails'))"
    assert said(code, library, 3) == [f"{failed} ([5, 5, 5], 15, None)"]


def test_a_call_inside_a_call_shares_its_team(library):
    code = """
inner = engine.together(loops)
outer = engine.together(engine.ffi().convert(lambda *given: (loops(*given), inner(*given))))
print(*(run(outer)[:2] for _ in range(3)))
"""
    team = "([10, 10], 20)"
    assert said(code, library, 2) == [f"([10, 10], 0) {team} {team}"]


def test_each_thread_has_a_team_of_its_own(library):
    code = (
        "found = []\n"
        "def work():\n"
        "    f = engine.together(loops)\n"
        "    run(f)\n"
        "    found.extend(run(f, 200) for _ in range(20))\n"
        "threads = [threading.Thread(target=work) for _ in range(3)]\n"
        "[t.start() for t in threads]\n[t.join() for t in threads]\n"
        "print(len(found), {str(f) for f in found})"
    )
    assert said(code, library, 2) == ["60 {'([200, 200], 400, None)'}"]


def test_more_threads_than_processors(library):
    code = "f = engine.together(loops)\nrun(f)\nprint(run(f, 300))"
    assert said(code, library, 12) == [f"({[300] * 12}, {300 * 12}, None)"]


def test_a_loop_outside_of_calls_is_the_pools(library):
    assert said("print(run(loops), run(loops))", library, 2) == [
        "([5, 5], 0, None) ([5, 5], 0, None)"
    ]
