"""What the report draws of a search: the trials of the kernels that run a recorded schedule."""

from __future__ import annotations

import pytest

from tests.kernels import host
from tests.tuning.networks import lowered, mlp, tasks
from tvm_sparse.passes.finish.write_padding import definitions
from tvm_sparse.schedules.kernel import Kernel
from tvm_sparse.tuning.database import Database
from tvm_sparse.tuning.history import best_so_far, histories
from tvm_sparse.tuning.record import record_of
from tvm_sparse.tuning.recorded import recorded_rules
from tvm_sparse.tuning.space import Point


def test_a_failed_trial_changes_nothing():
    assert best_so_far([1.2, None, 0.8, 0.9]) == [1.0, 1.0, 0.8, 0.8]


@pytest.fixture(scope="module")
def module():
    return lowered(*mlp())


def kernel_of(task, rule):
    return Kernel(task.name, task.layers[0], rule)


def searched(tmp_path, module, task, ratios, rule="Tuned", confirmed=None):
    point = task.space.default
    times = [{"seconds": r * 1e-5, "default_seconds": 1e-5} for r in ratios]
    records = [record_of(task.workload, task.space, point, **t) for t in times]
    if confirmed is not None:
        last = {"seconds": confirmed * 1e-5, "default_seconds": 1e-5, "confirmed": True}
        records.append(record_of(task.workload, task.space, Point(0, point.values), **last))
    database = Database(tmp_path)
    database.add(records)
    calls = [kernel_of(task, rule)] * 2
    functions = definitions(module, module)
    return histories(functions, calls, host(), recorded_rules(host(), database))


def test_each_tuned_function_has_one_curve(tmp_path, module):
    task = tasks(*mlp())[0]
    (found,) = searched(tmp_path, module, task, [1.0, 0.5, 0.7], confirmed=0.6)
    assert (found.function, found.layers, found.origin) == (task.name, task.layers[:1], "tuned")
    assert found.curve == pytest.approx((10.0, 5.0, 5.0))


@pytest.mark.parametrize(("ratios", "rule"), [([0.5], "Tuned"), ([1.0, 0.5], "Contraction")])
def test_no_curve_of_one_trial_or_without_a_record(tmp_path, module, ratios, rule):
    assert searched(tmp_path, module, tasks(*mlp())[0], ratios, rule) == []
