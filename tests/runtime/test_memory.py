"""Blocks of memory serve calls of any shapes: what a process takes does not grow with new ones."""

from __future__ import annotations

from tests.runtime import fresh

BEGIN = """
import sys
import numpy as np
import tvm_sparse_runtime as runtime

library = runtime.load(sys.argv[1], threads=1)
rng = np.random.default_rng(0)
x = rng.random((3000, 64), np.float32)
whole = library(x)

def resident():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
"""


def said(code, artifact):
    done = fresh.run(BEGIN + code, artifact)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_memory_does_not_grow_with_new_shapes(linear_artifact):
    """A block for each of 187 sizes would take 190 MiB."""
    code = """
for rows in rng.permutation(3000)[:50]: library(x[:rows + 1])
before = resident()
for rows in rng.permutation(3000)[:1000]: library(x[:rows + 1])
print(resident() - before)
"""
    (grown,) = said(code, linear_artifact)
    assert int(grown) < 8 << 10


def test_outputs_that_are_kept_stay_as_they_are(linear_artifact):
    code = """
kept = [(rows, library(x[:rows])) for rows in range(1, 400, 7)]
for rows in (3000, 1, 17, 1500): library(-x[:rows])
print(all(np.array_equal(a, b[:rows]) for rows, y in kept for a, b in zip(y, whole)))
"""
    assert said(code, linear_artifact) == ["True"]


def test_threads_with_a_session_each(linear_artifact):
    code = """
import threading
wrong = []

def work(seed):
    mine, rng = library.clone(), np.random.default_rng(seed)
    for rows in rng.integers(1, 3000, 200):
        found = mine(x[:rows])
        if not all(np.array_equal(a, b[:rows]) for a, b in zip(found, whole)):
            wrong.append(rows)

threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(wrong))
"""
    assert said(code, linear_artifact) == ["0"]


def test_memory_that_is_refused_is_an_error_and_no_end(linear_artifact):
    """TVM asks for a block of ours, and meets an exception of its own C++ library."""
    code = """
import resource
raw = np.ones(400_001 * 64, np.float32)
begin = -raw.ctypes.data % 64 // 4
large = raw[begin : begin + 400_000 * 64].reshape(-1, 64)  # aligned, so not copied
with open("/proc/self/statm") as sizes:
    taken = int(sizes.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + (1 << 20), resource.RLIM_INFINITY))
for given in (large, raw[begin + 1 :][: 399_999 * 64].reshape(-1, 64)):
    try:
        library(given)
    except runtime.SparseRuntimeError as error:
        print("bytes refused" in str(error))
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(all(np.array_equal(a, b) for a, b in zip(library(x), whole)))
"""
    assert said(code, linear_artifact) == ["True"] * 3
