from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tvm_sparse_runtime as rt
from tests.artifact.programs import linear_reference
from tvm_sparse_runtime import SparseRuntimeError, host


@pytest.fixture
def library(linear_artifact):
    return rt.load(linear_artifact)


def test_calls_of_many_threads_are_right(library):
    inputs = [np.full((n % 5 + 1, 64), n, "float32") for n in range(64)]
    pool = library.pool(3, threads=1)
    with ThreadPoolExecutor(8) as callers:
        results = list(callers.map(pool, inputs))
    for x, found in zip(inputs, results, strict=True):
        np.testing.assert_allclose(found[1], linear_reference(x)[1], rtol=1e-4)


def test_no_more_calls_run_than_there_are_sessions(library, monkeypatch):
    at_work, most = set(), 0

    def call(session, _x):
        nonlocal most
        assert session not in at_work
        at_work.add(session)
        most = max(most, len(at_work))
        at_work.discard(session)

    monkeypatch.setattr(type(library), "__call__", call)
    pool = library.pool(2)
    with ThreadPoolExecutor(8) as callers:
        list(callers.map(pool, range(200)))
    assert 1 <= most <= 2


def test_a_call_that_fails_gives_its_session_back(library):
    pool = library.pool(1)
    for _ in range(3):
        with pytest.raises(rt.TensorError):
            pool(np.zeros((2, 3), "float32"))
    assert len(pool(np.zeros((2, 64), "float32"))) == 2


@pytest.mark.parametrize(("cores", "sessions", "threads"), [(8, 3, 2), (2, 4, 1), (4, 1, 4)])
def test_cores_are_shared_out(library, monkeypatch, cores, sessions, threads):
    monkeypatch.setattr(host, "physical_cores", lambda: cores)
    pool = library.pool(sessions)
    assert (pool.sessions, pool.threads) == (sessions, threads)
    assert repr(pool) == f"Pool({sessions} sessions, {threads} threads a call)"


@pytest.mark.parametrize(("sessions", "threads"), [(0, None), (-1, None), (5000, None), (1, -1)])
def test_numbers_that_cannot_be(library, sessions, threads):
    with pytest.raises(SparseRuntimeError, match="1 to 4096"):
        library.pool(sessions, threads=threads)
