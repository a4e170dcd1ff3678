"""Crews: threads that share the parallel loops of a call, of one caller at a time."""

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
    _fields_ = (("failing", ctypes.c_int64), ("in_crews", ctypes.c_int64),
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
    return runs, counts.in_crews, error
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
    done = fresh.run(BEGIN + code, library, TVM_NUM_THREADS=str(threads))
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.grid
@pytest.mark.parametrize("threads", [1, 2, 3, 5])
@pytest.mark.parametrize("loops", [1, 5])
def test_the_loops_of_a_call_are_shared(library, threads, loops):
    code = f"f = engine.together(loops)\nfor _ in range(3): print(run(f, {loops}))"
    runs = [loops] * threads
    assert said(code, library, threads) == [f"({runs}, {loops * threads}, None)"] * 3


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


@pytest.mark.grid
@pytest.mark.parametrize("tasks", [1, 2, 7, 16])
def test_tasks_may_be_more_or_fewer_than_threads(library, tasks):
    code = f"f = engine.together(loops)\nprint(run(f, tasks={tasks}))"
    assert said(code, library, 3) == [f"({[5] * tasks}, {5 * tasks}, None)"]


@pytest.mark.grid
@pytest.mark.parametrize("failing", [0, 1, 2])
def test_an_error_ends_the_call_and_no_more(library, failing):
    code = f"f = engine.together(loops)\nrun(f)\nprint(run(f, failing={failing}), run(f))"
    failed = "([1, 1, 1], 3, ValueError('a task that fails'))"
    assert said(code, library, 3) == [f"{failed} ([5, 5, 5], 15, None)"]


def test_a_call_inside_a_call_shares_its_crew(library):
    code = """
inner = engine.together(loops)
outer = engine.together(engine.ffi().convert(lambda *given: (loops(*given), inner(*given))))
print(*(run(outer)[:2] for _ in range(3)))
"""
    assert said(code, library, 2) == [" ".join(["([10, 10], 20)"] * 3)]


def test_threads_that_call_at_the_same_time_have_a_crew_each(library):
    code = (
        "found = []\n"
        "def work():\n"
        "    f = engine.together(loops)\n"
        "    found.extend(run(f, 200, tasks=2) for _ in range(20))\n"
        "threads = [threading.Thread(target=work) for _ in range(5)]\n"
        "[t.start() for t in threads]\n[t.join() for t in threads]\n"
        "print(len(found), {str(f) for f in found})"
    )
    assert said(code, library, 2) == ["100 {'([200, 200], 400, None)'}"]


COUNT = """
import os
def alive(): return len(os.listdir("/proc/self/task"))
def one():
    run(engine.together(loops), 3)
"""


def test_threads_that_call_one_after_another_share_a_crew(library):
    code = (
        f"{COUNT}\n"
        "one()\nbefore = alive()\n"
        "for _ in range(20):\n"
        "    t = threading.Thread(target=one); t.start(); t.join()\n"
        "while alive() > before: pass\n"
        "print(before >= 3)"
    )
    assert said(code, library, 3) == ["True"]


def test_a_crew_sleeps_soon_after_a_call(library):
    code = (
        "import time\nf = engine.together(loops)\nrun(f)\ntime.sleep(0.1)\n"
        "used = time.process_time()\ntime.sleep(0.5)\nprint(time.process_time() - used < 0.1)\n"
        "print(run(f))"
    )
    assert said(code, library, 4) == ["True", "([5, 5, 5, 5], 20, None)"]


def test_a_system_without_threads_left_is_no_error(library):
    code = f"""
import resource
{COUNT}
f = engine.together(loops)
before = alive()
with open("/proc/self/statm") as file:
    pages = int(file.read().split()[0])
limit = pages * resource.getpagesize() + (20 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
print(run(f, tasks=16), alive() - before < 15)
"""
    assert said(code, library, 16) == [f"({[5] * 16}, 80, None) True"]


def test_a_forked_process_has_crews_of_its_own(library):
    code = """
import os
f = engine.together(loops)
print(run(f, 3), flush=True)
child = os.fork()
if child == 0:
    print(run(f, 3), flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""
    assert said(code, library, 3) == ["([3, 3, 3], 9, None)"] * 2


def test_more_threads_than_processors(library):
    code = "f = engine.together(loops)\nprint(run(f, 300))"
    assert said(code, library, 12) == [f"({[300] * 12}, {300 * 12}, None)"]


def test_a_loop_outside_of_calls_is_tvms(library):
    assert said("print(run(loops), run(loops))", library, 2) == [
        "([5, 5], 0, None) ([5, 5], 0, None)"
    ]
