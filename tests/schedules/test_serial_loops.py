"""Code for one thread: no parallel loops, the same results."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import s_tir, te

from tests.kernels import host
from tvm_sparse.schedules.build import build_scheduled, device_of
from tvm_sparse.schedules.cpu.serial_loops import SerialLoops


@pytest.fixture
def module():
    x = te.placeholder((6, 5, 16), name="X")
    sch = s_tir.Schedule(te.create_prim_func([x, te.compute(x.shape, lambda *i: x(*i) + 1.0)]))
    outer, _, lane = sch.get_loops(sch.get_sblock("compute"))
    sch.parallel(outer)
    sch.vectorize(lane)
    sch.annotate(outer, "pragma_kept", 1)
    return sch.mod


def test_only_the_kind_of_parallel_loops_changes(module):
    after = SerialLoops()(module).script()
    assert "T.parallel" in module.script(), "the pass wrote into its input"
    assert "T.parallel" not in after and "T.vectorized(16)" in after and "pragma_kept" in after


@pytest.mark.parametrize(("threads", "serial"), [("1", True), ("2", False)])
def test_the_number_of_threads_decides(module, threads, serial, monkeypatch):
    monkeypatch.setenv("TVM_NUM_THREADS", threads)
    after = tvm.transform.Sequential(device_of(host()).after_scheduling(host()))(module)
    assert ("T.parallel" not in after.script()) is serial


def test_results_are_the_same(module, monkeypatch):
    monkeypatch.setenv("TVM_NUM_THREADS", "1")
    x = np.random.default_rng(0).standard_normal((6, 5, 16)).astype(np.float32)
    y = tvm.runtime.tensor(np.zeros_like(x))
    build_scheduled(module, host()).mod["main"](tvm.runtime.tensor(x), y)
    np.testing.assert_array_equal(y.numpy(), x + np.float32(1))
